"""Requests for tokens as files and option texts state them: .txt, .json, .jsonl, .yaml, `TOKEN=text`, `eos=TOKEN`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.tokens.requests import TokenRequest
from vocabsurgeon.surgery.tokens.roles import check_role

_FLAGS = {"special", "lstrip", "rstrip", "single_word", "normalized"}
_KEYS = {item.name for item in fields(TokenRequest)}


def read_requests(path: Path, *, special: bool = True) -> tuple[TokenRequest, ...]:
    """The requests in `path`, by its suffix; `special` holds where an entry does not say.

    .txt: a token a line (white space around it and empty lines do not count). .json, .yaml: a list, or an object with
    the list under `tokens`. .jsonl: an entry a line. An entry is a text or an object with the fields of `TokenRequest`.
    Raises `UsageError` with the line or entry.
    """
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise UsageError(f"is no tokens file: its name ends in none of {', '.join(_READERS)}", where=path)
    text = _text(path)
    try:
        entries = list(_READERS[suffix](text))
    except RecursionError as error:
        raise UsageError("is nested too deeply", where=path) from error
    except ValueError as error:
        raise UsageError(f"cannot be read: {error}", where=path) from error
    if not entries:
        raise UsageError("names no token", where=path)
    return tuple(_request(entry, f"{path}, {place}", special) for place, entry in entries)


def parse_pair(text: str, option: str, known: Collection[str] = ()) -> tuple[str, str]:
    """`A=B` → (A, B). Where there are several `=`, the first whose left side is in `known`, else the first.

    Raises `UsageError`, naming `option`, where a side is empty.
    """
    places = [place for place, character in enumerate(text) if character == "=" and 0 < place < len(text) - 1]
    if not places:
        raise UsageError(f"needs two texts joined by =, not {text!r}", where=option)
    place = next((place for place in places if text[:place] in known), places[0])
    return text[:place], text[place + 1 :]


def parse_role(text: str) -> tuple[str, str]:
    """`eos=TOKEN` → ("eos", TOKEN). Raises `UsageError` where the role is unknown."""
    role, content = parse_pair(text, "--role")
    return check_role(role), content


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise UsageError("is not UTF-8 text", where=path) from error


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"line {number}", line.strip()


def _json_lines(text: str) -> Iterator[tuple[str, Any]]:
    for place, line in _lines(text):
        try:
            yield place, json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{place} is not JSON: {error.msg}") from error


def _json(text: str) -> Iterator[tuple[str, Any]]:
    return _entries(json.loads(text))


def _yaml(text: str) -> Iterator[tuple[str, Any]]:
    import yaml

    try:
        return _entries(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    entries = value.get("tokens") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise ValueError("it holds no list of tokens")
    return ((f"entry {number}", entry) for number, entry in enumerate(entries, 1))


def _request(entry: Any, where: str, special: bool) -> TokenRequest:
    if isinstance(entry, str):
        return TokenRequest(entry, special=special)
    if not isinstance(entry, dict):
        raise UsageError(f"{entry!r} is neither a text nor an object", where=where)
    unknown = sorted(str(key) for key in entry.keys() - _KEYS)
    if unknown:
        raise UsageError(f"unknown field {unknown[0]!r}", where=where, hint=f"fields are {', '.join(sorted(_KEYS))}")
    if not isinstance(entry.get("content"), str):
        raise UsageError("has no content", where=where)
    for key, value in entry.items():
        if not isinstance(value, bool if key in _FLAGS else str):
            raise UsageError(f"{key} is {value!r}, not {'true or false' if key in _FLAGS else 'a text'}", where=where)
    return TokenRequest(**{"special": special, **entry})


_READERS = {".txt": _lines, ".json": _json, ".jsonl": _json_lines, ".yaml": _yaml, ".yml": _yaml}
