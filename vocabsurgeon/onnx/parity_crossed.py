"""What an encoder–decoder is used for, run on both sides: encode a text or a sound, decode in one call and in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.horizons import BEYOND, most_tokens
from vocabsurgeon.onnx.prompts import LONGEST, prompts
from vocabsurgeon.onnx.scenarios import BATCH, STEPS, Pair, compare_greedy, padded
from vocabsurgeon.onnx.seq2seq_parts import sound_shape
from vocabsurgeon.onnx.signature import FEATURES, IDS, MASK
from vocabsurgeon.onnx.tally import Tally

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Array = np.ndarray[Any, Any]
_TARGET = 12
"""Tokens that are decoded in one call."""


def compare_crossed(pair: Pair, states: Tally, model: PreTrainedModel, source: Checkpoint) -> tuple[str, ...]:
    """Fill the pair's tally with logits and `states` with what the encoders give; return what could not be compared.

    Texts are encoded one by one and in batches padded on either side; targets of random and of the highest ids are
    decoded in one call, in two, and greedily.
    """
    targets, start = _targets(model), _start(model)
    if model.main_input_name == FEATURES:
        sounds = np.random.default_rng(3).standard_normal((BATCH, *(sound_shape(model) or ()))).astype(np.float32)
        _encode(pair, states, "sounds", {FEATURES: sounds})
        _decode(pair, "sounds", targets)
        _encode(pair, states, "sounds", {FEATURES: sounds})
        compare_greedy(pair, [[start]] * BATCH)
        return ()
    chosen = _sources(model, source)
    for ids in chosen:
        _encode(pair, states, "one text", _feed([ids], left=False))
        _decode(pair, "one text", targets[:1])
    batch = chosen[:BATCH]
    for left in (True, False):
        name = f"{'left' if left else 'right'}-padded batch"
        _encode(pair, states, name, _feed(batch, left))
        _decode(pair, name, targets[: len(batch)])
    compare_greedy(pair, [[start]] * len(batch))
    return ()


def _encode(pair: Pair, states: Tally, check: str, feed: Mapping[str, Array]) -> None:
    pair.restart()
    model: Any = pair.model
    export: Any = pair.export
    expected, found = model.encode(feed), export.encode(feed)
    attended = feed[MASK].astype(bool) if MASK in feed else np.ones(expected.shape[:2], bool)
    states.add(check, expected[attended], found[attended])


def _decode(pair: Pair, check: str, targets: Array) -> None:
    """`targets [batch, length]` in one call; then all but the last two, and these one by one through the cache."""
    full = np.ones(targets.shape, np.int64)
    pair.step(f"{check}, decoded at once", targets, full, full.astype(bool))
    pair.restart()
    if not pair.caches:
        return
    for start, stop in ((0, -2), (-2, -1), (-1, None)):
        part = targets[:, start:stop]
        mask = full[:, : targets.shape[1] + (stop or 0)]
        pair.step(f"{check}, decoded in steps", part, mask, np.ones(part.shape, bool))


def _sources(model: PreTrainedModel, source: Checkpoint) -> list[Sequence[int]]:
    """Texts to encode, the last of them longer than a window of the encoder's attention."""
    embedding: Any = model.get_input_embeddings()
    rows, limit = int(embedding.weight.shape[0]), most_tokens(model, STEPS + 2)
    chosen: list[Sequence[int]] = list(prompts(source, rows, min(LONGEST, limit - 2)).values())
    window = _window(model)
    if window and window + BEYOND <= limit:
        chosen.append(np.random.default_rng(1).integers(0, rows, window + BEYOND).tolist())
    return chosen


def _window(model: PreTrainedModel) -> int | None:
    """Tokens that an encoder with local attention sees around each token."""
    for name in ("attention_window", "local_radius", "sliding_window"):
        value = getattr(model.config, name, None)
        if isinstance(value, list) and value:
            return int(max(value))
        if isinstance(value, int):
            return value
    return None


def _targets(model: PreTrainedModel) -> Array:
    """Ids to decode `[batch, length]`: the start token, then random ones; in the first row the table's highest."""
    whole: Any = model
    head = whole.get_output_embeddings()
    rows = int(head.weight.shape[0])
    ids = np.random.default_rng(2).integers(0, rows, (BATCH, _TARGET))
    ids[0] = np.arange(rows - 1, rows - 1 - _TARGET, -1).clip(0)
    ids[:, 0] = _start(model)
    return ids


def _start(model: PreTrainedModel) -> int:
    """The token that decoding starts with."""
    for config in (model.generation_config, model.config, model.config.get_text_config(decoder=True)):
        for name in ("decoder_start_token_id", "bos_token_id"):
            value = getattr(config, name, None)
            if isinstance(value, int):
                return value
    return 0


def _feed(texts: Sequence[Sequence[int]], left: bool) -> dict[str, Array]:
    ids, mask = padded(texts, left)
    return {IDS: ids, MASK: mask}
