"""A model's hidden states by name: what its layers give on the way to the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.quiet import quiet
from vocabsurgeon.onnx.signature import LOGITS

if TYPE_CHECKING:
    import torch

Array = np.ndarray[Any, Any]
States = list[tuple[str, Array]]
"""Name and values `[batch, sequence, width]` float32, in the order of the layers."""


def states_of(module: torch.nn.Module, output: str, given: dict[str, Any], part: str = "") -> States | None:
    """The states of one call, then `output`: `embedding`, `layer 0`, …, `LM head` or `final norm`; with `part`
    (`encoder` or `decoder`) they are its. None where the module gives no hidden states for a call that it takes."""
    import torch

    with torch.no_grad(), quiet():
        try:
            outputs: Any = module(**given, output_hidden_states=True)
        except Exception:  # a model class raises what it likes for inputs that it does not take
            return None
    found = outputs.get("decoder_hidden_states") if part == "decoder" else outputs.get("hidden_states")
    if not found or len(found) < 2:
        return None
    states = _named(found, part)
    last = outputs.get(output)
    if last is not None:
        states.append(("LM head" if output == LOGITS else _of("final norm", part), last))
    return [(name, state.float().numpy()) for name, state in states]


def _named(states: Sequence[Any], part: str) -> list[tuple[str, Any]]:
    """transformers gives the last layer's output after the final norm where there is one."""
    between = [f"layer {number}" for number in range(len(states) - 2)]
    names = ["embedding", *between, f"layer {len(states) - 2} or the final norm"]
    return [(_of(name, part), state) for name, state in zip(names, states, strict=True)]


def _of(name: str, part: str) -> str:
    return f"{part}'s {name}" if part else name
