"""`Part`: one graph of an export before it is traced, and which parts a model is exported as."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vocabsurgeon.onnx.signature import Signature

if TYPE_CHECKING:
    import torch

MODEL, ENCODER, DECODER = "model.onnx", "encoder_model.onnx", "decoder_model.onnx"
Feed = Mapping[str, "torch.Tensor"]


@dataclass(frozen=True)
class Part:
    """A graph to be: its file, what it takes and gives, and the call that computes it in torch.

    `call` maps the inputs of `signature` by name to its outputs in order. `ignored`: inputs the model does not read.
    """

    file: str
    signature: Signature
    call: Callable[[Feed], Sequence[torch.Tensor]]
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts:
    """All graphs of an export, and what a user should know about their choice."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def caches(self) -> bool:
        """Whether one of the graphs can continue from a cache."""
        return any(part.signature.caches for part in self.parts)
