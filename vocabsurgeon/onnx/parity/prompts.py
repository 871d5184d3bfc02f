"""Token ids to compare a graph and its model on: rows that are new, random ids, and text of many scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import numpy as np

from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import VocabsurgeonError

LONGEST = 48
"""Most tokens of a prompt."""
HIGHEST, ADDED, RECORDED = "highest ids", "added tokens", "tokens of the record"
NEW = (HIGHEST, ADDED, RECORDED)
"""Prompts of rows that may be new: where a vocabulary was changed, these are what must not be wrong."""
_RANDOM = (24, 7)
_MOST_NEW = 16
_STANDS_FOR_ANOTHER = re.compile(r"(image|img|video|vision|audio|sound|speech).*_token_(id|index)$")
"""Config keys whose id is replaced by pictures or sound, which are not given here."""
TEXTS = (
    "The quick brown fox jumps over the lazy dog, and 3.14159 is not quite π.",
    "def add(a, b):\n    return a + b  # naïve\n\nprint(add(1, 2))",
    "Zürich, São Paulo, Kraków: Straßen, ações, żółć. Это тест. Ελληνικά.",
    "今日は良い天気です。你好,世界。안녕하세요 세계",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया 🙂🚀👩‍👩‍👧",
)


def prompts(source: Checkpoint, rows: int, longest: int = LONGEST) -> dict[str, list[int]]:
    """Name → ids, each below `rows` and at most `longest` of them, never fewer than 3 prompts. Same source, same ids.

    The first are those of `new_ids`. Text is encoded with the checkpoint's tokenizer.json; where there is none, or it
    knows none of the words, the random prompts stand for it.
    """
    random = np.random.default_rng(0)
    chosen = new_ids(source, rows)
    chosen |= {f"random {i}": random.integers(0, rows, size).tolist() for i, size in enumerate(_RANDOM)}
    chosen |= _texts(source, rows)
    return {name: ids[: max(1, longest)] for name, ids in chosen.items()}


def new_ids(source: Checkpoint, rows: int) -> dict[str, list[int]]:
    """Name of `NEW` → at most 16 ids that have a row, the highest first: the table's last rows, the tokenizer's added
    tokens, which lie below the last rows where these are padding, and the tokens that `extend` has put on record. Of
    the latter two, only what brings ids that those before do not have."""
    told: list[tuple[str, Iterable[int]]] = [(HIGHEST, range(rows))]
    hidden = set(_standing_for_another(source))
    told += [(ADDED, set(_added(source)) - hidden), (RECORDED, set(_recorded(source)))]
    chosen: dict[str, list[int]] = {}
    for name, ids in told:
        highest = sorted((i for i in ids if 0 <= i < rows), reverse=True)[:_MOST_NEW]
        if not {i for others in chosen.values() for i in others}.issuperset(highest):
            chosen[name] = highest
    return chosen


def _added(source: Checkpoint) -> list[int]:
    """Ids of the tokenizer's added tokens."""
    try:
        tokenizer = source.tokenizer
    except VocabsurgeonError:  # `check` is where a damaged tokenizer is reported
        return []
    return [] if tokenizer is None else [token.id for token in tokenizer.added]


def _recorded(source: Checkpoint) -> list[int]:
    """Ids that the report of `extend` beside the checkpoint gives as added."""
    if not source.has(RECORD):
        return []
    try:
        tokens = json.loads(source.read_text(RECORD)).get("tokens") or []
        ids = [token["id"] for token in tokens if token["status"] == "added"]
    except (VocabsurgeonError, ValueError, KeyError, TypeError, AttributeError):  # not a record of ours
        return []
    return [i for i in ids if isinstance(i, int)]


def _standing_for_another(source: Checkpoint) -> Iterator[int]:
    for level in source.config.levels.values():
        for key, value in level.items():
            if _STANDS_FOR_ANOTHER.search(key) and isinstance(value, int):
                yield value


def _texts(source: Checkpoint, rows: int) -> dict[str, list[int]]:
    if not source.has("tokenizer.json"):
        return {}
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(source.read_text("tokenizer.json"))
    except Exception:  # tokenizers raises bare Exception; `check` is where a damaged tokenizer is reported
        return {}
    encoded = {f"text {i}": tokenizer.encode(text).ids for i, text in enumerate(TEXTS)}
    known = {name: [i for i in ids if i < rows] for name, ids in encoded.items()}
    return {name: ids for name, ids in known.items() if len(set(ids)) > 2}
