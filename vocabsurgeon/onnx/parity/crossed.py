"""What an encoder–decoder is used for, run on both sides: encode a text or a sound, decode in one call and in steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.horizons import BEYOND, horizons, most_tokens
from vocabsurgeon.onnx.model_calls import vocabulary_rows
from vocabsurgeon.onnx.parity.beyond import compare_beyond
from vocabsurgeon.onnx.parity.pair import Pair
from vocabsurgeon.onnx.parity.prompts import LONGEST, new_ids, prompts
from vocabsurgeon.onnx.parity.scenarios import BATCH, CHUNK, compare_greedy, padded, steps_within
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.seq2seq_parts import sound_shape
from vocabsurgeon.onnx.signature import FEATURES, IDS, MASK

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Array = np.ndarray[Any, Any]
_TARGET = 12
"""Tokens that are decoded in one call."""
_LEAST = 2 * CHUNK
"""Tokens that every model is taken to hold."""


def compare_crossed(pair: Pair, states: Tally, model: PreTrainedModel, source: Checkpoint) -> tuple[str, ...]:
    """Fill the pair's tally with logits and `states` with what the encoders give; return what could not be compared.

    Texts are encoded one by one and in batches padded on either side; targets of the highest ids, of the tokenizer's
    added tokens and of random ids are decoded in one call, in chunks, and greedily.
    """
    rows, start, limit = _rows(model), _start(model), most_tokens(model, _LEAST)
    new = new_ids(source, rows)
    targets = _targets(list(new.values()), rows, start, min(_TARGET, limit))
    if model.main_input_name == FEATURES:
        sounds = np.random.default_rng(3).standard_normal((BATCH, *(sound_shape(model) or ()))).astype(np.float32)
        _encode(pair, states, "sounds", {FEATURES: sounds})
        _decode(pair, "sounds", targets)
    else:
        _compare_texts(pair, states, _sources(model, source), targets)
    pair.restart()
    compare_greedy(pair, [[start]] * BATCH, steps_within(limit))
    lengths = horizons(model.config.get_text_config(decoder=True))
    return compare_beyond(pair, model, lengths, list(new.values())[-1], rows, limit, padding=None, batches=(BATCH,))


def _compare_texts(pair: Pair, states: Tally, chosen: Sequence[Sequence[int]], targets: Array) -> None:
    """Each text with one row of the targets in turn; then a batch with all: the first two, and the last, which is the
    longest."""
    for number, ids in enumerate(chosen):
        _encode(pair, states, "one text", _feed([ids], left=False))
        _decode(pair, "one text", targets[[number % len(targets)]])
    for left in (True, False):
        name = f"{'left' if left else 'right'}-padded batch"
        _encode(pair, states, name, _feed([*chosen[: BATCH - 1], chosen[-1]], left))
        _decode(pair, name, targets)


def _encode(pair: Pair, states: Tally, check: str, feed: Mapping[str, Array]) -> None:
    pair.encode(check, states, feed, feed[MASK].astype(bool) if MASK in feed else None)


def _decode(pair: Pair, check: str, targets: Array) -> None:
    """`targets [batch, length]` in one call; then through the cache: most of them, several at once, two one by one."""
    full = np.ones(targets.shape, np.int64)
    pair.restart()
    pair.step(f"{check}, decoded at once", targets, full, full.astype(bool))
    if not pair.caches:
        return
    pair.restart()
    length = targets.shape[1]
    cuts = (0, length - CHUNK - 2, length - 2, length - 1, length)
    for start, stop in pairwise(cuts):
        pair.step(
            f"{check}, decoded in steps", targets[:, start:stop], full[:, :stop], full[:, start:stop].astype(bool)
        )


def _sources(model: PreTrainedModel, source: Checkpoint) -> list[Sequence[int]]:
    """Texts to encode, the last of them longer than a window of the encoder's attention where it has one."""
    rows, limit = vocabulary_rows(model), most_tokens(model, _LEAST)
    chosen: list[Sequence[int]] = list(prompts(source, rows, min(LONGEST, limit - 2)).values())
    window = horizons(model.config.get_text_config(encoder=True)).get("window", limit)
    if window + BEYOND <= limit:
        chosen.append(np.random.default_rng(1).integers(0, rows, window + BEYOND).tolist())
    return chosen


def _rows(model: PreTrainedModel) -> int:
    """Rows of the table that the decoder's logits come from."""
    whole: Any = model
    return int(whole.get_output_embeddings().weight.shape[0])


def _targets(new: Sequence[Sequence[int]], rows: int, start: int, length: int) -> Array:
    """Ids to decode `[batch, length]`: the start token, then new ids in the first rows, random ones in the last."""
    ids = np.random.default_rng(2).integers(0, rows, (BATCH, length))
    for row, found in enumerate(new[: BATCH - 1]):
        ids[row] = np.resize(found, length)
    ids[:, 0] = start
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
