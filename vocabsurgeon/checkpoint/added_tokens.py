"""Added tokens as `tokenizer.json`, `added_tokens_decoder` and `added_tokens.json` state them, and how libraries count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.vocabulary_files import FAST, check_id, checked_ids
from vocabsurgeon.errors import TokenizerError

FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")


@dataclass(frozen=True)
class AddedToken:
    """A token that is cut out of the text before the model sees it; the flags are those of the tokenizers library."""

    id: int
    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


def added_tokens(documents: Mapping[str, JsonText]) -> tuple[tuple[AddedToken, ...], tuple[str, ...]]:
    """The added tokens by id, and what the files say differently about one content.

    tokenizer.json counts first, then `added_tokens_decoder` of tokenizer_config.json, then added_tokens.json.
    Raises `TokenizerError` where an entry has another shape.
    """
    held: dict[str, AddedToken] = {}
    disagreements = []
    for source, token in _stated(documents):
        first = held.setdefault(token.content, token)
        if first.id != token.id:
            disagreements.append(f"{source} gives {token.content!r} the id {token.id}, another file {first.id}")
    return tuple(sorted(held.values(), key=lambda token: token.id)), tuple(disagreements)


def counted_ids(vocabulary: Mapping[str, int], contents: Sequence[str]) -> dict[str, set[int]]:
    """Content → the ids that versions of the tokenizers library give it when they read `contents` in this order.

    They ignore the declared ids: a content in the model's vocabulary has its id there, any other gets the next number.
    Up to 0.22 that is one more than the highest added id so far, or the vocabulary's size; from 0.23 on (seen on
    0.23.3) numbers are handed out from the vocabulary's size on, whatever ids the others have.
    """
    ids: dict[str, set[int]] = {}
    highest, upcoming = -1, len(vocabulary)
    for content in dict.fromkeys(filter(None, contents)):
        known = vocabulary.get(content)
        if known is None:
            running = max(highest + 1, len(vocabulary))
            ids[content] = {running, upcoming}
            upcoming += 1
        else:
            running = known
            ids[content] = {known}
        highest = max(highest, running)
    return ids


def _stated(documents: Mapping[str, JsonText]) -> Iterator[tuple[str, AddedToken]]:
    if FAST in documents:
        for entry in documents[FAST].read(("added_tokens",)) or ():
            yield FAST, _token(entry, FAST)
    if "tokenizer_config.json" in documents:
        where = "tokenizer_config.json"
        for number, entry in (documents[where].read(("added_tokens_decoder",)) or {}).items():
            key = int(number) if number.isdecimal() else number
            yield where, _token({**entry, "id": key} if isinstance(entry, dict) else entry, where)
    if "added_tokens.json" in documents:
        where = "added_tokens.json"
        for content, number in checked_ids(documents[where].value, where).items():
            yield where, AddedToken(number, content)


def _token(entry: Any, where: str) -> AddedToken:
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise TokenizerError(f"the added token {entry!r} has no content", where=where)
    number = check_id(entry.get("id"), entry["content"], where)
    return AddedToken(number, entry["content"], **{flag: entry.get(flag) is True for flag in FLAGS})
