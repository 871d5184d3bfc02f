"""DeepSeek V4's heavily compressed attention in a step, where one token sees every window that is compressed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def compressed_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """For `DeepseekV4HCACompressor.forward`: it hides windows from tokens before their end, by positions that do not
    count padding, and hides none where a call has one token. The graph is told apart by the number of tokens, not by
    a branch."""

    def forward(
        self: Any,
        hidden_states: torch.Tensor,
        q_residual: torch.Tensor,
        position_ids: torch.Tensor,
        cache: Any,
        layer_idx: int,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        import torch

        compressed, bias = original(self, hidden_states, q_residual, position_ids, cache, layer_idx)
        if bias is None:
            return compressed, None
        alone = torch.full((), position_ids.shape[1], device=bias.device) == 1
        return compressed, bias.masked_fill(alone, 0.0)

    return forward
