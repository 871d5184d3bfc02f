"""Token → id as each kind of tokenizer file states it. Added tokens are `added_tokens`' part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.slow_classes import SENTENCEPIECE_FILES
from vocabsurgeon.errors import TokenizerError

FAST = "tokenizer.json"
SLOW = (*SENTENCEPIECE_FILES, "vocab.json", "vocab.txt", "merges.txt")
"""Files of tokenizers without a tokenizer.json. They are never edited."""
MOST_IDS = 1 << 22
"""Ids from here on are taken for damage: published vocabularies end near 2^18."""


class Folder(Protocol):
    """What the tokenizer's readers need of a checkpoint."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, relative to the folder."""

    def has(self, name: str) -> bool:
        """Whether the folder holds file `name`."""

    def read_bytes(self, name: str) -> bytes:
        """The content of file `name`."""


def fast_vocabulary(document: JsonText) -> dict[str, int]:
    """Token → id of the model in `tokenizer.json`. Raises `TokenizerError` where its shape is unknown.

    A Unigram model's ids are positions; of a piece that occurs twice the later one counts, as for the library.
    """
    vocabulary = document.read(("model", "vocab"))
    if isinstance(vocabulary, list):
        return {_piece(entry): number for number, entry in enumerate(vocabulary)}
    if not isinstance(vocabulary, dict):
        raise TokenizerError("has no model.vocab", where=document.where)
    return checked_ids(vocabulary, document.where)


def model_size(document: JsonText, vocabulary: Mapping[str, int]) -> int:
    """How many entries the model counts: a Unigram piece that occurs twice counts twice."""
    is_list = document.read(("model", "type")) == "Unigram"
    return max(vocabulary.values(), default=-1) + 1 if is_list else len(vocabulary)


def plain_vocabulary(folder: Folder, name: str | None = None) -> dict[str, int] | None:
    """Token → id as vocab.json or vocab.txt states it, whichever is there (or is `name`); None where neither is."""
    if folder.has("vocab.json") and name in (None, "vocab.json"):
        return checked_ids(JsonText.parse(folder.read_bytes("vocab.json"), "vocab.json").value, "vocab.json")
    if folder.has("vocab.txt") and name in (None, "vocab.txt"):
        return {line: number for number, line in enumerate(_lines(folder.read_bytes("vocab.txt")))}
    return None


def checked_ids(mapping: Mapping[str, Any], where: str) -> dict[str, int]:
    """`mapping` if each value can be a token id. Raises `TokenizerError`."""
    for token, number in mapping.items():
        check_id(number, token, where)
    return dict(mapping)


def check_id(number: object, token: object, where: str) -> int:
    """`number` if it can be the id of `token`. Raises `TokenizerError`."""
    if type(number) is not int or not 0 <= number < MOST_IDS:
        raise TokenizerError(f"token {token!r} has id {number!r}, which is no id below {MOST_IDS}", where=where)
    return number


def _piece(entry: object) -> str:
    if isinstance(entry, list) and entry and isinstance(entry[0], str):
        return entry[0]
    raise TokenizerError(f"model.vocab holds {entry!r}, not a piece and its score", where=FAST)


def _lines(raw: bytes) -> list[str]:
    try:
        return raw.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError("is not UTF-8 text", where="vocab.txt") from error
