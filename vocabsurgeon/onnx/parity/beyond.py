"""Contexts beyond the lengths at which a model's attention changes its ways, in batches where that is affordable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vocabsurgeon.onnx.horizons import BEYOND, too_long
from vocabsurgeon.onnx.parity.pair import Pair
from vocabsurgeon.onnx.parity.scenarios import CHUNK, compare_long, fits_one_call, padded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SHORTER = 5
"""Tokens that rows of a batch lack after the first."""


def compare_beyond(
    pair: Pair,
    model: PreTrainedModel,
    lengths: Mapping[str, int],
    new: Sequence[int],
    rows: int,
    limit: int,
    *,
    padding: str | None = "left",
    batches: Sequence[int] = (2, 1),
) -> tuple[str, ...]:
    """Go beyond each of `lengths`, at most to `limit` tokens; return where that was not possible, and why.

    As many rows of random ids below `rows` as the first of `batches` that is affordable; the first row ends with ids of
    `new`, the others are shorter and padded on side `padding`, None: of equal length.
    """
    skipped = []
    for name, length in lengths.items():
        if length >= limit - 1:
            continue
        tokens = min(length + BEYOND, limit)
        batch, reason = _affordable(pair, model, tokens, batches)
        if reason is not None:
            what = "no context" if batch == 0 else "no batch of contexts"
            skipped.append(f"{what} beyond the {name} of {length} tokens was compared: {reason}")
        if batch:
            short = 0 if padding is None else min(_SHORTER, tokens - length - 1)
            texts = _texts(rows, [tokens, *[tokens - short] * (batch - 1)], new)
            compare_long(pair, f"beyond the {name}", *padded(texts, left=padding != "right"))
    return tuple(skipped)


def _affordable(pair: Pair, model: PreTrainedModel, tokens: int, batches: Sequence[int]) -> tuple[int, str | None]:
    """How many rows can be compared, and why not the most."""
    reason = None
    for batch in batches:
        if too_long(model, batch * tokens):
            reason = "it would take too long"
        elif not pair.caches and not fits_one_call(pair, batch * tokens):
            reason = "the graph has no cache, and one call would hold too many numbers"
        else:
            return batch, reason
    return 0, reason


def _texts(rows: int, lengths: Sequence[int], new: Sequence[int]) -> list[list[int]]:
    random = np.random.default_rng(1)
    texts = [random.integers(0, rows, length).tolist() for length in lengths]
    last = list(new[:CHUNK])
    texts[0][-len(last) :] = last
    return texts
