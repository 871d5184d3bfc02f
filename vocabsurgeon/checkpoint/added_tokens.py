"""Added tokens as the files state them, and the ids that the tokenizers library counts for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.vocabulary_files import FAST, check_id, checked_ids
from vocabsurgeon.errors import TokenizerError

CONFIG = "tokenizer_config.json"
ADDED = "added_tokens.json"
DECODER = "added_tokens_decoder"
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


def reading_orders(documents: Mapping[str, JsonText]) -> Mapping[str, tuple[str, ...]]:
    """Source → the added contents in the order in which a reader of it gives them to the tokenizers library.

    The library itself reads tokenizer.json in the order of the file. Most tokenizer classes of transformers build the
    model anew and then add what `added_tokens_decoder` lists, by id.
    """
    stated = list(_stated(documents))
    orders = {FAST: tuple(token.content for source, token in stated if source == FAST)}
    if CONFIG in documents and documents[CONFIG].read((DECODER,)) is not None:
        by_id = sorted((token.id, token.content) for source, token in stated if source == DECODER)
        orders[DECODER] = tuple(content for _, content in by_id)
    return orders


def counted_ids(vocabulary: Mapping[str, int], size: int, contents: Sequence[str]) -> dict[str, set[int]]:
    """Content → the ids that versions of the tokenizers library give it when they read `contents` in this order.

    `size` is the model's own count of its entries. The library ignores the declared ids: a content in the model's
    vocabulary has its id there, any other gets the next number. Up to 0.22 that is one more than the highest added id
    so far, or `size`; from 0.23 on (seen on 0.23.3) numbers run from `size` on, whatever ids the others have.
    """
    ids: dict[str, set[int]] = {}
    highest, upcoming = -1, size
    for content in dict.fromkeys(filter(None, contents)):
        known = vocabulary.get(content)
        if known is None:
            running = max(highest + 1, size)
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
    if CONFIG in documents:
        entries = documents[CONFIG].read((DECODER,)) or {}
        if not isinstance(entries, dict):
            raise TokenizerError(f"{DECODER} is not an object", where=CONFIG)
        for number, entry in entries.items():
            key = int(number) if number.isdecimal() else number
            yield DECODER, _token({**entry, "id": key} if isinstance(entry, dict) else entry, CONFIG)
    if ADDED in documents:
        for content, number in checked_ids(documents[ADDED].value, ADDED).items():
            yield ADDED, AddedToken(number, content)


def _token(entry: Any, where: str) -> AddedToken:
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise TokenizerError(f"the added token {entry!r} has no content", where=where)
    number = check_id(entry.get("id"), entry["content"], where)
    return AddedToken(number, entry["content"], **{flag: entry.get(flag) is True for flag in FLAGS})
