"""The ways a model is used, run on both sides at once: whole prompts, padding, cached steps, long contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vocabsurgeon.onnx.parity.pair import Pair
from vocabsurgeon.onnx.parity.prompts import NEW

Array = np.ndarray[Any, Any]
STEPS = 16
"""Greedy steps."""
BATCH = 3
"""Prompts of a batch."""
CHUNK = 3
"""Tokens that are put on a cache at once, and single ones after a long context."""
_WHOLE_LOGITS = 1 << 26
"""Most numbers of one call for a whole context, where there is no cache: 256 MB."""
_CHUNK_LOGITS = 1 << 25
"""Most logits of one call: a chunk of a long context is as short as the vocabulary is wide."""
_MOST_CHUNK = 128


UNPADDED = frozenset({"new tokens", "full sequence", "one token", "one token, continued"})
"""The checks of `compare_full`, in which no position is padding."""


def compare_full(pair: Pair, prompts: Mapping[str, Sequence[int]]) -> None:
    """Each prompt by itself, from an empty cache; and the first token of one alone, then several on the cache of it."""
    for done, (name, ids) in enumerate(prompts.items()):
        pair.progress("compare prompts", done, len(prompts))
        _run_whole(pair, "new tokens" if name in NEW else "full sequence", np.array([ids]))
    first = np.array([next(iter(prompts.values()))[:1]])
    _run_whole(pair, "one token", first)
    _continue(pair, "one token, continued", [next(iter(prompts.values()))], np.ones_like(first))


def compare_padded(pair: Pair, prompts: Sequence[Sequence[int]]) -> None:
    """A batch of prompts of unequal length, padded on the left and on the right; each then goes on from its cache by
    several tokens at once."""
    for left in (True, False):
        check = f"{'left' if left else 'right'}-padded batch"
        ids, mask = padded(prompts, left)
        pair.restart()
        pair.step(check, ids, mask, mask.astype(bool))
        _continue(pair, f"{check}, continued", prompts, mask)


def steps_within(limit: int) -> int:
    """Greedy steps for a model that takes `limit` tokens: `STEPS`, or half of what a very short one takes."""
    return min(STEPS, max(CHUNK, limit // 2))


def compare_greedy(pair: Pair, prompts: Sequence[Sequence[int]], steps: int = STEPS) -> None:
    """Greedy steps for the prompts as a left-padded batch: through the cache, or each over the whole text."""
    ids, mask = padded(prompts, left=True)
    last = np.zeros_like(mask, dtype=bool)
    last[:, -1] = True
    pair.restart()
    logits = pair.step("greedy decoding", ids, mask, last, greedy=True)
    for done in range(steps - 1):
        pair.progress("compare greedy steps", done, steps)
        chosen = logits[:, -1].argmax(axis=-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(chosen)], axis=1)
        if pair.caches:
            last, ids = np.ones_like(chosen, dtype=bool), chosen
        else:
            pair.restart()
            ids = np.concatenate([ids, chosen], axis=1)
            last = np.concatenate([np.zeros_like(last), np.ones_like(chosen, dtype=bool)], axis=1)
        logits = pair.step("greedy decoding", ids, mask, last, greedy=True)


def compare_long(pair: Pair, check: str, ids: Array, mask: Array) -> None:
    """Contexts `[batch, length]` of which `mask` hides the padding: through the cache, a chunk at a time, the end token
    by token; without a cache, whole."""
    pair.restart()
    if not pair.caches:
        pair.step(check, ids, mask, mask.astype(bool))
        return
    length, end = ids.shape[1], ids.shape[1] - CHUNK
    starts = [*range(0, end, _chunk(pair, len(ids))), *range(end, length)]
    for start, stop in zip(starts, [*starts[1:], length], strict=True):
        pair.progress("compare long context", start, length)
        pair.step(check, ids[:, start:stop], mask[:, :stop], mask[:, start:stop].astype(bool))


def fits_one_call(pair: Pair, tokens: int) -> bool:
    """Whether the numbers that one call for `tokens` gives stay within bounds."""
    return tokens * pair.width <= _WHOLE_LOGITS


def padded(prompts: Sequence[Sequence[int]], left: bool) -> tuple[Array, Array]:
    """Ids and mask `[batch, longest]` of prompts filled up with ids of their own, which the mask hides. One id alone
    would leave a model that scores padding (MiniMax M3) a choice among equals."""
    longest = max(map(len, prompts))
    ids = np.stack([np.resize(np.array(prompt, np.int64), longest) for prompt in prompts])
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        place = slice(longest - len(prompt), None) if left else slice(None, len(prompt))
        ids[row, place], mask[row, place] = prompt, 1
    return ids, mask


def _chunk(pair: Pair, batch: int) -> int:
    """Tokens of a chunk, so that one call's logits stay within bounds."""
    return max(1, min(_MOST_CHUNK, _CHUNK_LOGITS // (pair.width * batch)))


def _continue(pair: Pair, check: str, prompts: Sequence[Sequence[int]], mask: Array) -> None:
    """`CHUNK` tokens of each prompt at once, on the cache that the last step left."""
    if not pair.caches:
        return
    ids = np.array([np.resize(prompt, CHUNK) for prompt in prompts])
    attended = np.ones(ids.shape, bool)
    pair.step(check, ids, np.concatenate([mask, attended.astype(mask.dtype)], axis=1), attended)


def _run_whole(pair: Pair, check: str, ids: Array) -> None:
    pair.restart()
    pair.step(check, ids, np.ones_like(ids), np.ones(ids.shape, bool))
