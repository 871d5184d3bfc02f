"""The ways a model is used, run on both sides at once: whole prompts, padding, cached steps, long contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress
from vocabsurgeon.onnx.sides import Side
from vocabsurgeon.onnx.tally import Tally

Array = np.ndarray[Any, Any]
STEPS = 16
"""Greedy steps."""
BATCH = 3
"""Prompts of a batch."""
_WHOLE_LOGITS = 1 << 26
"""Most numbers of one call for a whole context, where there is no cache: 256 MB."""
_CHUNK_LOGITS = 1 << 24
"""Most logits of one call: a chunk of a long context is as short as the vocabulary is wide."""


@dataclass
class Pair:
    """The model, the export, and where their logits are compared. Each keeps its own cache."""

    model: Side
    export: Side
    tally: Tally
    progress: Progress
    model_past: Any = None
    export_past: Any = None

    @property
    def caches(self) -> bool:
        """Whether the export can continue from its cache."""
        return self.export.caches

    def restart(self) -> None:
        """Forget both caches."""
        self.model_past = self.export_past = None

    def step(self, check: str, ids: Array, mask: Array, attended: Array, *, greedy: bool = False) -> Array:
        """Run `ids [batch, sequence]` on both sides, compare the logits where `attended`, return the model's.

        `mask [batch, past + sequence]` covers what both caches hold. Positions count attended tokens, as generation
        does.
        """
        positions = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, -ids.shape[1] :]
        ids, mask, positions = (np.ascontiguousarray(part, np.int64) for part in (ids, mask, positions))
        expected, self.model_past = self.model.run(ids, mask, positions, self.model_past)
        found, self.export_past = self.export.run(ids, mask, positions, self.export_past)
        self.tally.add(check, expected[attended], found[attended], greedy=greedy)
        return expected


def compare_full(pair: Pair, prompts: Mapping[str, Sequence[int]]) -> None:
    """Each prompt by itself, from an empty cache; and the first token of one alone."""
    for done, ids in enumerate(prompts.values()):
        pair.progress("compare prompts", done, len(prompts))
        _run_whole(pair, "full sequence", np.array([ids]))
    _run_whole(pair, "one token", np.array([next(iter(prompts.values()))[:1]]))


def compare_padded(pair: Pair, prompts: Sequence[Sequence[int]]) -> None:
    """A batch of prompts of unequal length, padded on the left and on the right."""
    for left in (True, False):
        ids, mask = padded(prompts, left)
        pair.restart()
        pair.step(f"{'left' if left else 'right'}-padded batch", ids, mask, mask.astype(bool))


def compare_greedy(pair: Pair, prompts: Sequence[Sequence[int]]) -> None:
    """`STEPS` greedy steps for the prompts as a left-padded batch: through the cache, or each over the whole text."""
    ids, mask = padded(prompts, left=True)
    last = np.zeros_like(mask, dtype=bool)
    last[:, -1] = True
    pair.restart()
    logits = pair.step("greedy decoding", ids, mask, last, greedy=True)
    for done in range(STEPS - 1):
        pair.progress("compare greedy steps", done, STEPS)
        chosen = logits[:, -1].argmax(axis=-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(chosen)], axis=1)
        if pair.caches:
            last, ids = np.ones_like(chosen, dtype=bool), chosen
        else:
            pair.restart()
            ids = np.concatenate([ids, chosen], axis=1)
            last = np.concatenate([np.zeros_like(last), np.ones_like(chosen, dtype=bool)], axis=1)
        logits = pair.step("greedy decoding", ids, mask, last, greedy=True)


def compare_long(pair: Pair, check: str, ids: Array) -> None:
    """One context `[1, length]`: through the cache, a chunk at a time, its end token by token; without one, whole."""
    if not pair.caches:
        _run_whole(pair, check, ids)
        return
    width = pair_width(pair, ids)
    end = ids.shape[1] - 4
    starts = [*range(0, end, width), *range(end, ids.shape[1])]
    pair.restart()
    for start, stop in zip(starts, [*starts[1:], ids.shape[1]], strict=True):
        pair.progress("compare long context", start, ids.shape[1])
        chunk = ids[:, start:stop]
        pair.step(check, chunk, np.ones((1, stop), np.int64), np.ones(chunk.shape, bool))


def pair_width(pair: Pair, ids: Array) -> int:
    """Tokens of a chunk, so that one call's logits stay within bounds."""
    return max(1, min(128, _CHUNK_LOGITS // _width(pair, ids)))


def fits_one_call(pair: Pair, ids: Array) -> bool:
    """Whether the numbers that one call for all of `ids` gives stay within bounds."""
    return int(ids.shape[1]) * _width(pair, ids) <= _WHOLE_LOGITS


def _width(pair: Pair, ids: Array) -> int:
    pair.restart()
    logits = pair.step("one token", ids[:, :1], np.ones((1, 1), np.int64), np.ones((1, 1), bool))
    return int(logits.shape[-1])


def padded(prompts: Sequence[Sequence[int]], left: bool) -> tuple[Array, Array]:
    """Ids and mask `[batch, longest]` of prompts filled up with id 0, which the mask hides."""
    longest = max(map(len, prompts))
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        place = slice(longest - len(prompt), None) if left else slice(None, len(prompt))
        ids[row, place], mask[row, place] = prompt, 1
    return ids, mask


def _run_whole(pair: Pair, check: str, ids: Array) -> None:
    pair.restart()
    pair.step(check, ids, np.ones_like(ids), np.ones(ids.shape, bool))
