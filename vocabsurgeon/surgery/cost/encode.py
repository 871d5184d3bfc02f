"""A probe as token ids: by the checkpoint's own tokenizer with its special tokens, else seeded random ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.cost.probe import Probe

CHUNK = 64
"""Most tokens of a chunk, special tokens included: its logits are held whole."""
MOST_TOKENS = 4096
"""Where the probe ends: later passages are left out, and told."""
_SHORTEST = 4
_PROMPT = 12
_RANDOM = (8, 64)
"""Chunks and their length where ids are random."""

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Encoded:
    """Chunks of ids, each below the table's rows, and equally long prompts; `tokenizer` turns ids into text again."""

    chunks: tuple[Ids, ...]
    prompts: tuple[Ids, ...]
    tokenizer: Any | None
    random: bool = False
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """How many ids all chunks hold."""
        return sum(map(len, self.chunks))

    def text(self, ids: Sequence[int]) -> str:
        """`ids` as text; as numbers where there is no tokenizer."""
        if self.tokenizer is None:
            return " ".join(map(str, ids))
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))


def encode(source: Checkpoint, probe: Probe, rows: int, longest: int) -> Encoded:
    """`probe` in chunks of at most `longest` ids (and `CHUNK`), all below `rows`.

    Without a tokenizer that loads, and with one that knows hardly a word of the probe, seeded random ids stand in.
    """
    tokenizer, why = _tokenizer(source)
    if tokenizer is None:
        return _random(rows, longest, why)
    longest = min(longest, CHUNK)
    with silenced():
        plain = [_below(tokenizer.encode(text, add_special_tokens=False), rows) for text in probe.passages]
        if _unknown(plain, getattr(tokenizer, "unk_token_id", None)):
            return _random(rows, longest, "the tokenizer knows hardly a word of the probe")
        before, after = _around(tokenizer, probe.passages[0], rows)
        prompts = [_below(tokenizer.encode(text, add_special_tokens=False), rows) for text in probe.prompts]
    room = max(1, longest - len(before) - len(after))
    cut = [(*before, *part, *after) for ids in plain for part in _parts(ids, room)]
    chunks, notes = _limited(cut)
    length = min([_PROMPT, room, *(len(ids) for ids in prompts if ids)])
    begun = tuple((*before, *ids[:length]) for ids in prompts if ids)
    return Encoded(chunks, begun, tokenizer, notes=notes)


def _tokenizer(source: Checkpoint) -> tuple[Any | None, str]:
    """The tokenizer that transformers makes of the folder; None and why there is none."""
    if source.tokenizer is None:
        return None, "the checkpoint has no tokenizer"
    from transformers import AutoTokenizer

    try:
        with silenced():
            return AutoTokenizer.from_pretrained(source.root, local_files_only=True, trust_remote_code=False), ""
    except Exception as error:  # tokenizers raises bare Exception, and any class may refuse its files in its own way
        return None, f"transformers does not load the tokenizer ({type(error).__name__})"


def _below(ids: Sequence[int], rows: int) -> Ids:
    return tuple(number for number in ids if number < rows)


def _unknown(encoded: Sequence[Ids], unknown: int | None) -> bool:
    """Whether most ids stand for unknown text, or all are one and the same."""
    ids = [number for passage in encoded for number in passage]
    return len(set(ids)) < 2 or 2 * sum(number == unknown for number in ids) > len(ids)


def _around(tokenizer: Any, text: str, rows: int) -> tuple[Ids, Ids]:
    """The ids that the tokenizer sets before and after any text."""
    bare, whole = (_below(tokenizer.encode(text, add_special_tokens=flag), rows) for flag in (False, True))
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    return (), ()


def _parts(ids: Ids, room: int) -> Iterator[Ids]:
    """`ids` in parts of nearly equal length, none longer than `room`; those too short to tell anything are left out."""
    count = -(-len(ids) // room)
    for number in range(count):
        part = ids[number * len(ids) // count : (number + 1) * len(ids) // count]
        if len(part) >= min(_SHORTEST, room):
            yield part


def _limited(chunks: Sequence[Ids]) -> tuple[tuple[Ids, ...], tuple[str, ...]]:
    kept: list[Ids] = []
    total = 0
    for ids in chunks:
        if total + len(ids) > MOST_TOKENS:
            return tuple(kept), (f"measured on the first {total} tokens of the probe",)
        kept.append(ids)
        total += len(ids)
    return tuple(kept), ()


def _random(rows: int, longest: int, why: str) -> Encoded:
    count, length = _RANDOM
    ids = np.random.default_rng(0).integers(0, rows, (count, min(length, longest))).tolist()
    chunks = tuple(tuple(chunk) for chunk in ids)
    note = f"{why}: measured on random ids, which no text looks like"
    return Encoded(chunks, tuple(chunk[: _PROMPT // 2] for chunk in chunks[:3]), None, True, (note,))
