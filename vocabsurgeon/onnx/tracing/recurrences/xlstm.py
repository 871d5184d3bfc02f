"""The matrix LSTM (Beck et al. 2024): xLSTM, whose own code goes by chunks, then token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.recurrences.over_tokens import States, Token, over_tokens

if TYPE_CHECKING:
    import torch


def matrix_lstm(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `xLSTMBackend.forward`: the model's own step, for every token. Chunks are a faster way to the same sums."""

    def forward(
        self: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        igate: torch.Tensor,
        fgate: torch.Tensor,
        c_initial: torch.Tensor | None = None,
        n_initial: torch.Tensor | None = None,
        m_initial: torch.Tensor | None = None,
        return_last_states: bool | None = None,
        mode: str | None = None,
    ) -> Any:
        import torch

        wide = getattr(torch, self.config.inference_state_dtype)

        def step(states: States, token: Token) -> tuple[States, torch.Tensor]:
            query, key, value, igate, fgate = token
            output, last = self.step_kernel_fn(
                query=query,
                key=key,
                value=value,
                igate=igate[..., None],
                fgate=fgate[..., None],
                cstate=states[0],
                nstate=states[1],
                mstate=states[2],
                eps=self.config.eps,
                dtype_state=wide,
            )
            return tuple(last), output

        nothing = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1], dtype=wide)
        given = (c_initial, n_initial, m_initial)
        empty = (nothing, nothing[..., 0].clone(), nothing[..., 0, :1].clone())
        start = tuple(state if told is None else told.to(wide) for state, told in zip(empty, given, strict=True))
        last, outputs = over_tokens(step, start, (query, key, value, igate, fgate), axis=2)
        tells = return_last_states or "inference" in (mode or self.config.mode)
        return (outputs, last) if tells else outputs

    return forward
