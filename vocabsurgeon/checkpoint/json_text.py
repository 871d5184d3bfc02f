"""`JsonText`: a JSON document that is edited as text, so that every byte outside an edit stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vocabsurgeon.checkpoint.json_changes import JsonChange, Path
from vocabsurgeon.checkpoint.json_insert import place_behind
from vocabsurgeon.checkpoint.json_scan import Member, ScanError, members, space_end
from vocabsurgeon.checkpoint.json_style import Style, document_style, margin_at, style_of
from vocabsurgeon.errors import ConfigError

_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class JsonText:
    """An object in JSON text, as UTF-8 bytes. Immutable: each edit returns a new document.

    Indentation, separators, key order, escapes, line ends and a final newline are kept; what is added takes the layout
    of its neighbors. Numbers, `Infinity` and `NaN` included (Python's readers take them), are never rewritten.
    """

    raw: bytes
    where: str
    changes: tuple[JsonChange, ...] = field(default=(), compare=False)
    """What the edits since `parse` did, in order."""

    @classmethod
    def parse(cls, text: str | bytes, where: str) -> JsonText:
        """The document in `text`, wholly decoded once; `where` is the file's name in messages.

        Raises `ConfigError` (with line and column where they are known) where it is no JSON object, holds half a
        surrogate pair, begins with a byte order mark or is nested too deeply.
        """
        document = cls(_encode(text, where), where)
        _ = document.value
        return document

    @classmethod
    def outline(cls, text: str | bytes, where: str) -> JsonText:
        """The document in `text`, its brackets counted but its values not decoded: for files of tens of megabytes.

        A part is decoded, and only then checked, when it is asked for. Raises `ConfigError` where the text is cut off.
        """
        document = cls(_encode(text, where), where)
        root = document._find(())
        if root is None or document.raw[root.value : root.value + 1] != b"{":
            raise ConfigError("is not a JSON object", where=where)
        held = document._members(())
        last = held[-1].end if held else root.value + 1
        if space_end(document.raw, last) != root.end - 1:
            raise _not_json(document, "more text behind the last bracket", last)
        return document

    @cached_property
    def value(self) -> dict[str, Any]:
        """The document, decoded (at the first use after an edit). Raises `ConfigError`."""
        value = _decode(self.raw, self, 0)
        if not isinstance(value, dict):
            raise ConfigError("is not a JSON object", where=self.where)
        return value

    @property
    def text(self) -> str:
        """The document as text."""
        return self.raw.decode("utf-8")

    def has(self, path: Path) -> bool:
        """Whether there is a value at `path` (null is a value)."""
        return self._find(path) is not None

    def read(self, path: Path, default: Any = None) -> Any:
        """The value at `path`, decoded alone; `default` where there is none. Raises `ConfigError`."""
        member = self._find(path)
        if member is None:
            return default
        return _decode(self.raw[member.value : member.end], self, member.value)

    def set(self, path: Path, value: Any) -> JsonText:
        """`value` in the place of what is at `path`, or as the last key of the object that `path` leads to.

        Raises `ConfigError` where that object is missing or holds the key twice, or `value` cannot be written.
        """
        member, change = self._find(path), JsonChange("set", path, value)
        if member is None:
            return self._append(path[:-1], b"{", [(str(path[-1]), value)], change)
        with _translated(self):
            text = self._style_at(member.value).dump(value, margin_at(self.raw, member.start))
        return self._splice(member.value, member.end, text, change)

    def update(self, path: Path, mapping: Mapping[str, Any]) -> JsonText:
        """The object at `path` with the keys of `mapping` replaced or added at its end. Raises `ConfigError`."""
        document = self
        held = {member.key for member in self._members(path)}
        for key in mapping:
            document = document.set((*path, key), mapping[key]) if key in held else document
        new: list[tuple[str | None, Any]] = [(key, value) for key, value in mapping.items() if key not in held]
        changes = (JsonChange("set", (*path, str(key)), value) for key, value in new)
        return document._append(path, b"{", new, *changes) if new else document

    def extend(self, path: Path, values: Iterable[Any]) -> JsonText:
        """The array at `path` with `values` behind its last element. Raises `ConfigError` where there is no array."""
        new: list[tuple[str | None, Any]] = [(None, value) for value in values]
        return self._append(path, b"[", new, JsonChange("append", path, [value for _, value in new])) if new else self

    def remove(self, path: Path) -> JsonText:
        """The document without the member at `path`; unchanged where there is none. Raises `ConfigError`."""
        member = self._find(path)
        if member is None:
            return self
        siblings, change = self._members(path[:-1]), JsonChange("remove", path)
        place = siblings.index(member)
        if place:
            return self._splice(siblings[place - 1].end, member.end, "", change)
        if len(siblings) > 1:
            return self._splice(member.start, siblings[1].start, "", change)
        opening, end = self._span(path[:-1])
        return self._splice(opening + 1, end - 1, "", change)

    def rename(self, path: Path, key: str) -> JsonText:
        """The member at `path` under the name `key`, in its place. Raises `ConfigError` where `key` is taken."""
        siblings = self._members(path[:-1])
        member = self._only(siblings, path)
        if member is None:
            raise ConfigError(f"has no {_dotted(path)}", where=self.where)
        if any(sibling.key == key for sibling in siblings):
            raise ConfigError(f"{_dotted(path[:-1])} already has a key {key!r}", where=self.where)
        end = member.value - len(member.colon)
        return self._splice(member.start, end, self._style.quote(key), JsonChange("rename", path, key))

    @cached_property
    def _style(self) -> Style:
        return document_style(self.raw)

    def _style_at(self, position: int) -> Style:
        if self.raw[position : position + 1] in (b"{", b"["):
            return style_of(self.raw, position, self._style)
        return self._style

    def _splice(self, start: int, end: int, text: str, *changes: JsonChange) -> JsonText:
        try:
            raw = b"".join((self.raw[:start], text.encode("utf-8"), self.raw[end:]))
            return JsonText(raw, self.where, (*self.changes, *changes))
        except UnicodeEncodeError as error:
            raise ConfigError("half a surrogate pair cannot be written", where=self.where) from error

    def _append(self, path: Path, bracket: bytes, new: list[tuple[str | None, Any]], *changes: JsonChange) -> JsonText:
        opening, end = self._span(path)
        if self.raw[opening : opening + 1] != bracket:
            kind = "an object" if bracket == b"{" else "an array"
            raise ConfigError(f"{_dotted(path)} is not {kind}", where=self.where)
        place = place_behind(self.raw, opening, end, self._members(path), self._style)
        with _translated(self):
            text = place.text(new)
        return self._splice(place.start, place.end, text, *changes)

    def _span(self, path: Path) -> tuple[int, int]:
        member = self._find(path)
        if member is None:
            raise ConfigError(f"has no {_dotted(path)}", where=self.where)
        return member.value, member.end

    def _find(self, path: Path) -> Member | None:
        if not path:
            start = space_end(self.raw, 0)
            return Member("", start, start, len(self.raw.rstrip(b" \t\r\n")))
        return self._only(self._members(path[:-1]), path)

    def _only(self, siblings: list[Member], path: Path) -> Member | None:
        found = [member for member in siblings if member.key == path[-1]]
        if len(found) > 1:
            raise ConfigError(f"holds the key {_dotted(path)} twice", where=self.where)
        return found[0] if found else None

    @cached_property
    def _walked(self) -> dict[tuple[str | int, ...], list[Member]]:
        return {}

    def _members(self, path: Path) -> list[Member]:
        """The members of the container at `path`, none where there is no container. Remembered unless very many."""
        if path in self._walked:
            return self._walked[path]
        holder = self._find(path)
        if holder is None or self.raw[holder.value : holder.value + 1] not in (b"{", b"["):
            return []
        with _translated(self):
            walked = list(members(self.raw, holder.value))
        if len(walked) <= _REMEMBERED:
            self._walked[path] = walked
        return walked


_REMEMBERED = 10_000


def _encode(text: str | bytes, where: str) -> bytes:
    try:
        raw = text.encode("utf-8") if isinstance(text, str) else text
        if not raw.isascii():
            raw.decode("utf-8")
    except UnicodeError as error:
        raise ConfigError("is not UTF-8 text", where=where) from error
    if raw.startswith(b"\xef\xbb\xbf"):
        raise ConfigError("begins with a byte order mark", where=where, hint="save it as UTF-8 without one")
    return raw


def _decode(part: bytes, document: JsonText, offset: int) -> Any:
    with _translated(document, offset):
        value = json.loads(part)
        if _HALF_PAIR.search(part):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


@contextmanager
def _translated(document: JsonText, offset: int = 0) -> Iterator[None]:
    """Turns what `json` and the scanner raise into one line about the document; `offset`: where the part began."""
    try:
        yield
    except ScanError as error:
        raise _not_json(document, str(error), error.position) from error
    except json.JSONDecodeError as error:
        position = offset + len(error.doc[: error.pos].encode("utf-8"))
        raise _not_json(document, error.msg, position) from error
    except UnicodeEncodeError as error:
        raise ConfigError("holds half a surrogate pair", where=document.where) from error
    except RecursionError as error:
        raise ConfigError("is nested too deeply", where=document.where) from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"cannot be read or written as JSON: {error}", where=document.where) from error


def _not_json(document: JsonText, message: str, position: int) -> ConfigError:
    before = document.raw[:position]
    line = before.count(b"\n") + 1
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    return ConfigError(f"is not JSON: {message} (line {line}, column {column})", where=document.where)


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path) or "the document"
