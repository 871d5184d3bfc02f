"""The edits to tokenizer_config.json, special_tokens_map.json and added_tokens.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.special_tokens import ADDITIONAL, CONFIG, EXTRA, SPECIAL_MAP, content_of
from vocabsurgeon.surgery.tokens.assignment import AssignedToken, Assignment
from vocabsurgeon.surgery.tokens.fast_edits import flags_of

_DECODER = "added_tokens_decoder"
_DECODER_FIELDS = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
"""In the order in which transformers writes them."""


def edited_config(document: JsonText, assignment: Assignment) -> JsonText:
    """tokenizer_config.json: `added_tokens_decoder` where it is, the list of special tokens, the roles."""
    if document.read((_DECODER,)) is not None:
        entries = {str(token.id): _decoder_entry(token) for token in _changed(assignment)}
        document = document.update((_DECODER,), entries)
    document = _renamed(document, assignment)
    specials = assignment.files.specials if assignment.files else None
    if specials is not None and specials.file == CONFIG:
        document = _listed(document, specials.key, assignment)
    return _with_roles(document, assignment)


def edited_special_map(document: JsonText, assignment: Assignment) -> JsonText:
    """special_tokens_map.json: the list of special tokens under its own key (made where there is none), the roles."""
    document = _renamed(document, assignment)
    specials = assignment.files.specials if assignment.files else None
    own = specials.key if specials is not None and specials.file == SPECIAL_MAP else None
    key = own or (EXTRA if document.read((EXTRA,)) else ADDITIONAL)
    return _with_roles(_listed(document, key, assignment), assignment)


def edited_added(document: JsonText, assignment: Assignment) -> JsonText:
    """added_tokens.json: content → id of each token that a slow tokenizer's own files do not hold."""
    for token in _changed(assignment):
        old = token.request.replaces
        if token.status == "replaced" and old is not None and document.has((old,)):
            document = document.rename((old,), token.content)
        elif token.status != "promoted":
            document = document.update((), {token.content: token.id})
    return document


def _changed(assignment: Assignment) -> list[AssignedToken]:
    return [token for token in assignment.tokens if token.status != "exists"]


def _decoder_entry(token: AssignedToken) -> dict[str, Any]:
    values: dict[str, Any] = {"content": token.content, **flags_of(token)}
    return {field: values[field] for field in _DECODER_FIELDS}


def _renamed(document: JsonText, assignment: Assignment) -> JsonText:
    """A replaced token under its new name in roles and lists; off the lists if the new one is not special."""
    for token in assignment.tokens:
        if token.status != "replaced":
            continue
        for key, value in document.value.items():
            if key.endswith("_token") and content_of(value) == token.request.replaces:
                document = _set_content(document, (key,), value, token.content)
        for path, value in reversed(list(_entries(document, (EXTRA, ADDITIONAL)))):
            if content_of(value) == token.request.replaces:
                special = token.request.special
                document = _set_content(document, path, value, token.content) if special else document.remove(path)
    return document


def _entries(document: JsonText, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    for key in keys:
        held = document.read((key,))
        pairs = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        yield from (((key, place), value) for place, value in pairs)


def _set_content(document: JsonText, path: tuple[str | int, ...], held: Any, content: str) -> JsonText:
    return document.set((*path, "content") if isinstance(held, dict) else path, content)


def _listed(document: JsonText, key: str, assignment: Assignment) -> JsonText:
    """The special tokens under `key`: at the end of a list, or by a name of their own in an object."""
    listed = {content_of(value) for _, value in _entries(document, (key,))}
    special = [token.content for token in _changed(assignment) if token.request.special]
    new = [content for content in special if content not in listed]
    if not new:
        return document
    held = document.read((key,))
    if isinstance(held, dict):
        return document.update((key,), _named(new, document.value.keys() | held.keys()))
    if isinstance(held, list):
        return document.extend((key,), new)
    return document.set((key,), new)


def _named(contents: list[str], taken: set[str]) -> Mapping[str, str]:
    """Attribute names for `contents`, as `extra_special_tokens` in the form of an object wants them."""
    named: dict[str, str] = {}
    for content in contents:
        base = re.sub(r"\W+", "_", content).strip("_").lower() or "extra"
        name, number = f"{base}_token", 1
        while name in taken or name in named or name in _ATTRIBUTES:
            number += 1
            name = f"{base}_{number}_token"
        named[name] = content
    return named


_ATTRIBUTES = {f"{role}_token" for role in ("bos", "eos", "pad", "unk", "sep", "cls", "mask")}


def _with_roles(document: JsonText, assignment: Assignment) -> JsonText:
    for role, content in assignment.roles.items():
        held = document.read((f"{role}_token",))
        if content_of(held) != content:
            document = _set_content(document, (f"{role}_token",), held, content)
    return document
