"""`compare_logits`: whether two checkpoints give old ids the same logits. Loads one after the other."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.errors import CheckpointError, TokenizerError
from vocabsurgeon.surgery.promises.states import config_leaves
from vocabsurgeon.surgery.tokens.loaded import LoadedTokenizer
from vocabsurgeon.surgery.tokens.sample import SAMPLE
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.live import named, random_tables
from vocabsurgeon.vocabulary.loading import load_model

TOLERANCE = 1e-6
"""Of the largest logit, at least 1: both sides run the same float32 graph on the same bits, and a table of another
height may be multiplied in another order: units in the last place (1.2e-7), a few of them."""
_RANDOM = (24, 24, 7, 1)
"""Lengths of the random prompts."""
_LONGEST = 32
_TEXTS = 6


@dataclass(frozen=True)
class LogitsParity:
    """How far apart the logits on old ids are. None is "not measured"."""

    max_abs_diff: float | None
    tolerance: float | None
    top1_agreement: float | None
    """Share of positions whose highest old id is the same."""
    prompts: int
    positions: int
    ids: int
    """Logits compared at each position."""
    passed: bool | None
    evidence: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The `parity` object of `verify --logits`."""
        return {**vars(self), "evidence": list(self.evidence)}


def compare_logits(before: Description, after: Description, trust_remote_code: bool = False) -> LogitsParity:
    """Run both models in float32 on the same prompts of old ids, and compare the logits of old ids.

    Old ids: those of BEFORE's tokenizer that still bear their token, else all rows; with a row in both tables. Prompts:
    random ones, the highest ids, and sample text as BEFORE's tokenizer reads it. A class without a head is compared by
    its last hidden state. A BEFORE that cannot be run, or of which anything is random, leaves it not checked; an AFTER
    fails.
    """
    ids = old_ids(before, after)
    if not len(ids):
        return _unmeasured(None, "the two have no id in common")
    chosen = list(prompts(before, ids))
    first, random = _run(before, chosen, ids, trust_remote_code)
    if isinstance(first, str) or random:
        return _unmeasured(None, f"not checked: BEFORE: {first if isinstance(first, str) else random}")
    second, random = _run(after, chosen, ids, trust_remote_code)
    if isinstance(second, str):
        return _unmeasured(False, f"AFTER: {second}")
    found = _compared(first, second, len(ids))
    return found if not random else replace(found, passed=False, evidence=(*found.evidence, f"AFTER: {random}"))


def old_ids(before: Description, after: Description) -> np.ndarray[Any, Any]:
    """The ids `[n]` int64, ascending, that mean the same in both and have a row in both."""
    rows = min(before.vocabulary.rows, after.vocabulary.rows)
    old, new = before.source.tokenizer, after.source.tokenizer
    if old is None:
        return np.arange(rows)
    kept = old.token_to_id if new is None else new.token_to_id
    same = {number for token, number in old.token_to_id.items() if kept.get(token) == number and number < rows}
    return np.array(sorted(same), dtype=np.int64)


def prompts(before: Description, ids: np.ndarray[Any, Any]) -> Iterator[list[int]]:
    """Prompts of `ids` alone, without those that the config gives a meaning (padding, images). Same input, same ids."""
    plain = np.setdiff1d(ids, list(_meant(before.source.config)))
    plain = plain if len(plain) else ids
    random = np.random.default_rng(0)
    yield from (random.choice(plain, size).tolist() for size in _RANDOM)
    yield plain[-16:].tolist()
    known = set(plain.tolist())
    for text in _read(before):
        prompt = [number for number in text if number in known][:_LONGEST]
        if len(prompt) > 1:
            yield prompt


def _meant(config: Config) -> Iterator[int]:
    for path, value in config_leaves(config).items():
        if path[-1].endswith(("token_id", "token_index")) and isinstance(value, int):
            yield value


def _read(before: Description) -> Iterator[Sequence[int]]:
    files = before.source.tokenizer
    if files is None or files.slow_only:
        return
    try:
        tokenizer = LoadedTokenizer(before.source.read_bytes("tokenizer.json"))
        yield from (tokenizer.ids(text) for text in SAMPLE[:_TEXTS])
    except TokenizerError:  # the promise about the tokenizer tells of it; random prompts do here
        return


def _run(
    description: Description, chosen: Sequence[Sequence[int]], ids: np.ndarray[Any, Any], trust_remote_code: bool
) -> tuple[list[np.ndarray[Any, Any]] | str, str | None]:
    """Logits `[length, len(ids)]` float32 of each prompt, or why there are none; and what is random, if anything."""
    try:
        loaded = load_model(description.source, "float32", trust_remote_code)
        chance = tuple(dict.fromkeys((*random_tables(loaded, description), *loaded.random)))
        random = f"{named(chance)} in no file, so random" if chance else None
        return [_logits(loaded.model, prompt, ids) for prompt in chosen], random
    except CheckpointError as error:
        return str(error), None
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        return f"it does not run on token ids alone: {next(iter(str(error).splitlines()), type(error).__name__)}", None
    finally:
        gc.collect()


def _logits(model: Any, prompt: Sequence[int], ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import torch

    tokens = torch.tensor([list(prompt)])
    inputs: Mapping[str, Any] = {"input_ids": tokens}
    if model.config.is_encoder_decoder:
        inputs = {"input_ids": tokens, "decoder_input_ids": tokens}
    with torch.no_grad(), silenced():
        output = model(**inputs)
    logits = getattr(output, "logits", None)
    if logits is None:
        logits = getattr(output, "prediction_logits", None)
    found: np.ndarray[Any, Any]
    if logits is None:
        found = output.last_hidden_state[0].float().numpy()
    else:
        found = logits[0].float().numpy()[:, ids]
    return found


def _compared(first: list[np.ndarray[Any, Any]], second: list[np.ndarray[Any, Any]], count: int) -> LogitsParity:
    if any(a.shape != b.shape for a, b in zip(first, second, strict=True)):
        return _unmeasured(False, "the two give outputs of different shapes")
    finite = all(np.isfinite(values).all() for values in first)
    scale = max(float(np.abs(values).max(initial=0.0)) for values in first)
    with np.errstate(invalid="ignore"):
        gaps = [np.abs(a - b) for a, b in zip(first, second, strict=True)]
    largest = float(np.max([gap.max(initial=0.0) for gap in gaps]))
    agree = np.concatenate([a.argmax(-1) == b.argmax(-1) for a, b in zip(first, second, strict=True)])
    if not finite:
        return _unmeasured(None, "not checked: BEFORE gives logits that are not finite")
    allowed = TOLERANCE * max(1.0, scale)
    passed = bool(largest <= allowed)  # NaN is not
    told = f"float32, {len(first)} prompts, largest logit {scale:.4g}"
    return LogitsParity(
        None if np.isnan(largest) else largest,
        allowed,
        float(agree.mean()),
        len(first),
        len(agree),
        count,
        passed,
        (told,) if not np.isnan(largest) else (told, "AFTER gives logits that are not finite"),
    )


def _unmeasured(passed: bool | None, why: str) -> LogitsParity:
    return LogitsParity(None, None, None, 0, 0, 0, passed, (why,))
