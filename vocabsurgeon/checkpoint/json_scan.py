"""Where the parts of a JSON document lie in its bytes: spans; nothing is decoded but keys, nothing edited."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,:\[\]{}\"]++")
_UNTIL_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_INNERMOST = re.compile(
    rb'(?:\[[^"\[\]{}]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"\[\]{}]*){0,16}\][^"\[\]{}]*){1,500}', re.DOTALL
)
"""A run of arrays that hold no container: the merges of a BPE model are half a million of them."""
_KEY = re.compile(rb'[ \t\r\n]*+("(?:[^"\\]++|\\.)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_AFTER = re.compile(rb"[ \t\r\n]*+([,\]}])")


class ScanError(ValueError):
    """The bytes are not JSON at `position`; `json_text` turns it into an error that names the file and line."""

    def __init__(self, message: str, position: int) -> None:
        self.position = position
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object, or one element of an array (its key is then its index).

    `start` is where the member begins (the key's quote), `value` where its value begins, `end` is behind the value;
    `colon` is the text between key and value. All are byte offsets.
    """

    key: str | int
    start: int
    value: int
    end: int
    colon: bytes = b""


def members(raw: bytes, opening: int) -> Iterator[Member]:
    """The members of the object or array whose bracket is at byte `opening`, in order. Raises `ScanError`."""
    is_object = raw[opening : opening + 1] == b"{"
    position, index = space_end(raw, opening + 1), 0
    if raw[position : position + 1] in (b"}", b"]"):
        return
    while True:
        member = _object_member(raw, position) if is_object else _element(raw, position, index)
        yield member
        after = _AFTER.match(raw, member.end)
        if after is None:
            raise ScanError("expected , or a closing bracket", member.end)
        if after[1] != b",":
            return
        position, index = after.end(), index + 1


def value_end(raw: bytes, start: int) -> int:
    """The offset behind the value that begins at `start`; brackets are counted, not paired. Raises `ScanError`."""
    first = raw[start : start + 1]
    if first in (b"{", b"["):
        return _container_end(raw, start)
    match = (_STRING if first == b'"' else _SCALAR).match(raw, start)
    if match is None:
        raise ScanError("expected a value", start)
    return match.end()


def space_end(raw: bytes, start: int) -> int:
    """The offset of the first byte from `start` on that is not JSON white space."""
    match = _SPACE.match(raw, start)
    assert match is not None  # the expression matches the empty string
    return match.end()


def _container_end(raw: bytes, start: int) -> int:
    position, depth = start, 0
    while True:
        match = _UNTIL_BRACKET.match(raw, position)
        assert match is not None  # the expression matches the empty string
        position = match.end()
        innermost = _INNERMOST.match(raw, position) if depth else None
        if innermost is not None:
            position = innermost.end()
            continue
        bracket = raw[position : position + 1]
        if bracket not in (b"{", b"[", b"}", b"]"):  # the end of the text, or a string that never closes
            raise ScanError("ends inside an object or array", position)
        depth += 1 if bracket in (b"{", b"[") else -1
        position += 1
        if depth == 0:
            return position


def _object_member(raw: bytes, position: int) -> Member:
    match = _KEY.match(raw, position)
    if match is None:
        raise ScanError("expected a key in quotes", position)
    value = match.end()
    return Member(_decode(match[1]), match.start(1), value, value_end(raw, value), raw[match.end(1) : value])


def _element(raw: bytes, position: int, index: int) -> Member:
    value = space_end(raw, position)
    return Member(index, value, value, value_end(raw, value))


def _decode(quoted: bytes) -> str:
    if b"\\" not in quoted:
        return quoted[1:-1].decode("utf-8", "surrogatepass")
    text: str = json.loads(quoted)
    return text
