"""Which of its own ways to compute attention a model takes: `eager` is the one that is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vocabsurgeon.checkpoint.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

EAGER = "eager"


def attention_of(model: PreTrainedModel) -> str:
    """The implementation that the model has: `sdpa` where nothing else is asked for."""
    return str(model.config._attn_implementation)


@contextmanager
def eager(model: PreTrainedModel) -> Iterator[None]:
    """The model with eager attention inside the block: plain matrix products and a softmax that stays finite on rows
    that attend to nothing. The implementation it had comes back."""
    before = attention_of(model)
    with quiet():
        model.set_attn_implementation(EAGER)
    try:
        yield
    finally:
        with quiet():
            model.set_attn_implementation(before)
