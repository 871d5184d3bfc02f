"""One step a token, carried along, in a form that traces at any length: torch's `scan`, ONNX's `Scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

States = tuple["torch.Tensor", ...]
Token = Sequence["torch.Tensor"]
Step = Callable[..., tuple[States, "torch.Tensor"]]


def over_tokens(
    step: Step, states: States, tokens: Sequence[torch.Tensor], axis: int, weights: Sequence[torch.Tensor] = ()
) -> tuple[States, torch.Tensor]:
    """The states after the last token, and the outputs stacked along `axis`.

    `step(states, token, *weights)` gives the next states and the token's output; `token` are the slices of `tokens`
    along `axis`, without it; `weights` are all other tensors that it reads, which the loop's body has from outside.
    States keep shape and dtype, and nothing that `step` gives may be what it was given, or be given twice.
    """
    # Not `scan` itself, which compiles the step anew for every layer.
    from torch._higher_order_ops.scan import scan_op

    kept, sliced = len(states), len(states) + len(tokens)

    def flat(*values: torch.Tensor) -> list[torch.Tensor]:
        after, output = step(values[:kept], values[kept:sliced], *values[sliced:])
        return [*after, output]

    *last, outputs = scan_op(flat, states, tuple(tensor.movedim(axis, 0) for tensor in tokens), tuple(weights))
    return tuple(last), outputs.movedim(0, axis)
