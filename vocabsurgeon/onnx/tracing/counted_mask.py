"""CPM-Ant's mask, which counts the tokens down in a Python list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def counted_mask(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `CpmAntModel._prepare_attention_mask`: what it makes of a list is counted by a tensor."""

    def _prepare_attention_mask(
        self: Any, input_ids: torch.Tensor, span: torch.Tensor, context: torch.Tensor, length: torch.Tensor
    ) -> torch.Tensor:
        import torch

        batch, tokens = input_ids.shape
        places = torch.arange(tokens, device=input_ids.device)
        causal = places <= places[:, None]
        seen = context[:, None, :] | (context[:, :, None].logical_not() & causal[None])
        seen = seen & (span[:, None, :] == span[:, :, None])
        text = (tokens - 1 - places[self.prompt_length :])[None] < length[:, None]
        prompt = torch.ones(batch, self.prompt_length, dtype=torch.bool, device=input_ids.device)
        real = torch.cat((prompt, text), dim=1)
        return real[:, :, None] & real[:, None, :] & seen

    return _prepare_attention_mask
