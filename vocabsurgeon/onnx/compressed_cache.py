"""DeepSeek V4's compressed keys in a form that one graph can hold: what tokens were projected to, for all of them.

The model's own cache keeps compressed windows, and of the tokens after the last whole window what is to be compressed.
How long both are depends on each other, and a call that ends no window goes another way through the code. Here each
call compresses the windows of all tokens anew, as the model does without a cache; the weights are not read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PROJECTED = {"projected_kv": "kv", "projected_gate": "gate"}
"""Attribute of such a layer → what it is called; it holds `[batch, length, width]` by the name of a compressor."""


def compresses(layer: Any) -> bool:
    """Whether a layer of a transformers cache keeps compressed keys."""
    return hasattr(layer, "store_compression_weights")


def whole_compression(layer: Any) -> Any:
    """An empty layer that takes the place of `layer` and compresses in each call what it was ever given."""
    import torch
    from transformers.cache_utils import DynamicLayer

    class WholeCompression(DynamicLayer):  # type: ignore[no-untyped-call]
        def __init__(self, rate: int) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.compress_rate = rate
            self.projected_kv: dict[str, torch.Tensor] = {}
            self.projected_gate: dict[str, torch.Tensor] = {}

        def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
            """Keys are values here, so values are not kept."""
            self.keys = key_states if self.keys is None else torch.cat([self.keys, key_states], dim=-2)
            self.is_initialized = True
            return self.keys, self.keys

        def store_compression_weights(self, name: str, kv: torch.Tensor, gate: torch.Tensor) -> Any:
            """The whole windows of all tokens, and the position of the first."""
            for held, new in ((self.projected_kv, kv), (self.projected_gate, gate)):
                held[name] = torch.cat([held[name], new], dim=1) if name in held else new
            usable = (self.projected_kv[name].shape[1] // self.compress_rate) * self.compress_rate
            return self.projected_kv[name][:, :usable], self.projected_gate[name][:, :usable], 0

        def update_compressor_states(self, name: str, compressed: torch.Tensor) -> torch.Tensor:
            """All of them already."""
            return compressed

        def update_overlap_state(self, *_: Any) -> tuple[None, None]:
            """There is no window before the first."""
            return None, None

    return WholeCompression(layer.compress_rate)
