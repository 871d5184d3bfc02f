"""The edits to tokenizer.json: its `added_tokens`; other parts of it only where they must follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.surgery.tokens.assignment import AssignedToken, Assignment
from vocabsurgeon.surgery.tokens.post_processors import with_roles, with_token_renamed

_FIELDS = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
"""In the order in which the tokenizers library writes them."""
_VOCAB = ("model", "vocab")


def edited_fast(document: JsonText, assignment: Assignment) -> JsonText:
    """tokenizer.json with the tokens of `assignment`; its merges and everything else keep their bytes."""
    files = assignment.files
    if files is None:
        return document
    entries = document.read(("added_tokens",))
    places = {entry["content"]: place for place, entry in enumerate(entries or [])}
    for token in assignment.tokens:
        if token.status == "replaced":
            document = _with_replaced(document, token, places, files)
    order = tuple(entries[-1]) if entries else _FIELDS
    new = [_entry(token, order) for token in _new_entries(assignment, places)]
    document = document.extend(("added_tokens",), new) if entries is not None else document.set(("added_tokens",), new)
    if assignment.in_model:
        ids = {token.content: token.id for token in assignment.tokens}
        document = document.update(_VOCAB, {content: ids[content] for content in assignment.in_model})
    return _with_roles(document, assignment, files.roles)


def _new_entries(assignment: Assignment, places: dict[str, int]) -> Iterator[AssignedToken]:
    for token in assignment.tokens:
        if token.status in ("added", "promoted") or (
            token.status == "replaced" and token.request.replaces not in places
        ):
            yield token


def _entry(token: AssignedToken, order: tuple[str, ...]) -> dict[str, Any]:
    values = flags_of(token) | {"id": token.id, "content": token.content}
    return {key: values[key] for key in dict.fromkeys((*(key for key in order if key in values), *_FIELDS))}


def flags_of(token: AssignedToken) -> dict[str, bool]:
    """The flags of `token` as an entry of `added_tokens` has them."""
    request = token.request
    return {
        "single_word": request.single_word,
        "lstrip": request.lstrip,
        "rstrip": request.rstrip,
        "normalized": request.normalized,
        "special": request.special,
    }


def _with_replaced(document: JsonText, token: AssignedToken, places: dict[str, int], files: TokenizerFiles) -> JsonText:
    old = str(token.request.replaces)
    if old in places:
        path = ("added_tokens", places[old])
        held = document.read(path)
        for key, value in {"content": token.content, **flags_of(token)}.items():
            document = document if held.get(key) == value else document.set((*path, key), value)
    document = _with_renamed_entry(document, old, token, files)
    if document.read(("model", "unk_token")) == old:
        document = document.set(("model", "unk_token"), token.content)
    if document.read(("padding", "pad_token")) == old:
        document = document.set(("padding", "pad_token"), token.content)
    return with_token_renamed(document, old, token.content)


def _with_renamed_entry(document: JsonText, old: str, token: AssignedToken, files: TokenizerFiles) -> JsonText:
    if old not in files.vocabulary:
        return document
    if files.model_type == "Unigram":  # a list: the id is the position
        return document.set((*_VOCAB, token.id, 0), token.content)
    return document.rename((*_VOCAB, old), token.content)


def _with_roles(document: JsonText, assignment: Assignment, before: Mapping[str, str]) -> JsonText:
    if not assignment.roles:
        return document
    ids = assignment.role_ids
    if "pad" in ids and isinstance(document.read(("padding",)), dict):
        document = document.update(("padding",), {"pad_id": ids["pad"], "pad_token": assignment.roles["pad"]})
    return with_roles(document, before, assignment.roles, ids)
