"""RWKV-4's weighted sum over the past (Peng et al. 2023), numerator and denominator kept relative to their maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.recurrences.over_tokens import States, Token, over_tokens

if TYPE_CHECKING:
    import torch

_NOTHING = -1e38
"""The maximum before the first token, as the model's code has it."""


def linear_attention(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `rwkv_linear_attention_cpu`."""

    def rwkv_linear_attention_cpu(
        time_decay: torch.Tensor,
        time_first: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        state: Sequence[torch.Tensor] | None = None,
        return_state: bool = False,
    ) -> tuple[torch.Tensor, list[torch.Tensor] | None]:
        import torch

        def step(states: States, token: Token, decay: torch.Tensor, first: torch.Tensor) -> tuple[States, torch.Tensor]:
            (above, below, most), (key, value) = states, token
            shown = torch.maximum(most, key + first)
            old, new = torch.exp(most - shown), torch.exp(key + first - shown)
            output = (old * above + new * value) / (old * below + new)
            kept = torch.maximum(most + decay, key)
            old, new = torch.exp(most + decay - kept), torch.exp(key - kept)
            return (old * above + new * value, old * below + new, kept), output

        start = _start(key) if state is None else tuple(state)
        tokens, weights = (key.float(), value.float()), (-torch.exp(time_decay), time_first)
        last, outputs = over_tokens(step, start, tokens, axis=1, weights=weights)
        return outputs.to(key.dtype), list(last) if return_state or state is not None else None

    return rwkv_linear_attention_cpu


def _start(key: torch.Tensor) -> States:
    """Numerator, denominator and maximum before the first token, `[batch, width]` float32."""
    import torch

    above, below = (key.new_zeros(key.shape[0], key.shape[2], dtype=torch.float32) for _ in range(2))
    return above, below, below + _NOTHING
