"""Lightning attention (Qin et al. 2024): MiniMax. Linear attention with a decay a head; its own code goes by blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.recurrences.over_tokens import States, Token, over_tokens

if TYPE_CHECKING:
    import torch


def lightning_attention(_original: Callable[..., Any]) -> Callable[..., Any]:
    """For `MiniMaxLightningAttention.forward`: one token after the other, as its code does on a state that it has
    kept."""

    def forward(
        self: Any,
        hidden_states: torch.Tensor,
        position_embeddings: Any,
        attention_mask: torch.Tensor | None,
        cache: Any = None,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        decay = torch.exp(-self.slope_rate)

        def step(states: States, token: Token, decay: torch.Tensor) -> tuple[States, torch.Tensor]:
            (state,), (query, key, value) = states, token
            state = decay * state + key[..., None] * value[..., None, :]
            return (state,), (query[..., None, :] @ state)[..., 0, :]

        silenced = sys.modules[type(self).__module__].apply_mask_to_padding_states
        mixed = silenced(self.act_fn(self.qkv_proj(hidden_states)), attention_mask)
        tokens = mixed.unflatten(-1, (self.num_attention_heads, 3 * self.head_dim)).split(self.head_dim, dim=3)
        start = None if cache is None else cache.get_linear_cache(self.layer_idx)
        if start is None:
            start = mixed.new_zeros(mixed.shape[0], self.num_attention_heads, self.head_dim, self.head_dim)
        (last,), outputs = over_tokens(step, (start,), tokens, axis=1, weights=(decay,))
        if cache is not None:
            cache.set_linear_cache(self.layer_idx, last)
        gate = torch.sigmoid(self.output_gate(hidden_states))
        return self.out_proj(gate * self.norm(outputs.flatten(2))), last

    return forward
