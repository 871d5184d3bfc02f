"""Mamba's selective scan (Gu and Dao 2023): Mamba 1, Falcon-Mamba, Jamba, Zamba."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.recurrences.over_tokens import States, Token, over_tokens

if TYPE_CHECKING:
    import torch


def selective_scan(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `mamba_selective_scan`. Decays are computed in the step: the model makes `[batch, width, tokens, state]` of
    them beforehand, the same numbers in as many times the memory as there are tokens."""

    def mamba_selective_scan(
        hidden_states: torch.Tensor,
        dt: torch.Tensor,
        A: torch.Tensor,
        B: torch.Tensor,
        C: torch.Tensor,
        D: torch.Tensor | None = None,
        z: torch.Tensor | None = None,
        delta_bias: torch.Tensor | None = None,
        delta_softplus: bool = False,
        return_last_state: bool = False,
        **_: Any,
    ) -> Any:
        from torch.nn import functional

        if delta_bias is not None:
            dt = dt + delta_bias.to(dt.dtype)[..., None]
        if delta_softplus:
            dt = functional.softplus(dt)

        def step(states: States, token: Token, A: torch.Tensor) -> tuple[States, torch.Tensor]:
            (state,), (x, dt, into, out) = states, token
            gain = dt[:, :, None] * into[:, None, :].float() * x[:, :, None].float()
            state = (A[None] * dt[:, :, None]).exp() * state + gain
            return (state,), (state.to(x.dtype) @ out[:, :, None])[:, :, 0]

        start = A.new_zeros(hidden_states.shape[0], *A.shape)
        (last,), outputs = over_tokens(step, (start,), (hidden_states, dt, B, C), axis=2, weights=(A,))
        if D is not None:
            outputs = outputs + hidden_states * D[None, :, None]
        if z is not None:
            outputs = outputs * functional.silu(z)
        return (outputs, last) if return_last_state else outputs

    return mamba_selective_scan
