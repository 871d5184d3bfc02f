"""The gated delta rule (Yang et al. 2024) and Kimi's, with a decay a channel: Qwen3-Next, Qwen3.5, OLMo hybrid, Kimi
Linear. Their own code goes by chunks, whose number tracing would fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.recurrences.over_tokens import States, Token, over_tokens

if TYPE_CHECKING:
    import torch

_NORM_EPS = 1e-6


def delta_rule(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `torch_chunk_gated_delta_rule` and `chunk_kimi_delta_attention`: one token after the other, as the models'
    own `recurrent` forms do. Chunks are a faster way to the same sums."""

    def chunk_delta_rule(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor,
        initial_state: torch.Tensor | None = None,
        output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        import torch

        dtype, groups = query.dtype, value.shape[2] // key.shape[2]
        query, key, value, g, beta = (tensor.to(torch.float32) for tensor in (query, key, value, g, beta))
        if groups > 1:
            query, key = (tensor.repeat_interleave(groups, dim=2) for tensor in (query, key))
        if use_qk_l2norm_in_kernel:
            query, key = _unit(query), _unit(key)
        decay = g.exp() if g.ndim == key.ndim else g.exp()[..., None]

        def step(states: States, token: Token) -> tuple[States, torch.Tensor]:
            (state,), (query, key, value, decay, beta) = states, token
            state = state * decay[..., None]
            known = (state * key[..., None]).sum(-2)
            state = state + key[..., None] * ((value - known) * beta[..., None])[..., None, :]
            return (state,), (state * query[..., None]).sum(-2)

        start = initial_state
        if start is None:
            start = value.new_zeros(value.shape[0], value.shape[2], key.shape[3], value.shape[3])
        tokens = (query * query.shape[-1] ** -0.5, key, value, decay, beta)
        (last,), outputs = over_tokens(step, (start.to(torch.float32),), tokens, axis=1)
        return outputs.to(dtype), last if output_final_state else None

    return chunk_delta_rule


def _unit(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor * torch.rsqrt((tensor * tensor).sum(-1, keepdim=True) + _NORM_EPS)
