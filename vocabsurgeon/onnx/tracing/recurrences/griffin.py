"""The real-gated linear recurrent unit of Griffin (De et al. 2024): RecurrentGemma."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.recurrences.over_tokens import States, Token, over_tokens

if TYPE_CHECKING:
    import torch


def rnn_scan(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `RecurrentGemmaRglru._rnn_scan`."""

    def _rnn_scan(
        self: Any,
        hidden_states: torch.Tensor,
        recurrent_gate: torch.Tensor,
        reset: torch.Tensor,
        recurrent_states: torch.Tensor | None,
        acc_dtype: torch.dtype | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        wide = acc_dtype or torch.float32

        def step(states: States, token: Token) -> tuple[States, torch.Tensor]:
            (state,), (gate, x) = states, token
            state = gate * state + x
            return (state,), state.clone()

        gates, inputs = (recurrent_gate * ~reset).to(wide), hidden_states.to(wide)
        start = inputs.new_zeros(inputs.shape[0], inputs.shape[2]) if recurrent_states is None else recurrent_states
        (last,), outputs = over_tokens(step, (start,), (gates, inputs), axis=1)
        return outputs.to(hidden_states.dtype), last

    return _rnn_scan
