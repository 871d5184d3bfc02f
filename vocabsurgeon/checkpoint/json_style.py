"""How a JSON document is laid out, and how to write new values in the same layout."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

from vocabsurgeon.checkpoint.json_scan import Member, members, space_end

_ESCAPED_NON_ASCII = re.compile(rb"\\u(?!00[0-7])")


@dataclass(frozen=True)
class Style:
    """`newline` and `unit` (one level of indentation; None: everything on one line), separators, escaping."""

    newline: str = "\n"
    unit: str | None = "  "
    comma: str = ", "
    colon: str = ": "
    ascii_only: bool = False

    def quote(self, text: str) -> str:
        """`text` as a JSON string."""
        return json.dumps(text, ensure_ascii=self.ascii_only)

    def dump(self, value: Any, margin: str) -> str:
        """`value` as JSON whose lines after the first are indented by `margin` more. Raises ValueError on NaN."""
        comma = self.comma if self.unit is None else ","
        text = json.dumps(
            value,
            indent=self.unit,
            separators=(comma, self.colon),
            ensure_ascii=self.ascii_only,
            allow_nan=False,
        )
        return text.replace("\n", self.newline + margin)


def style_of(raw: bytes, opening: int, fallback: Style) -> Style:
    """The layout of the non-empty container at byte `opening`; what it does not show comes from `fallback`."""
    first_two = list(islice(members(raw, opening), 2))
    if not first_two:
        return fallback
    lead = raw[opening + 1 : first_two[0].start].decode()
    unit = None
    if "\n" in lead:
        unit = _last_line(lead).removeprefix(margin_at(raw, opening))
    colon = first_two[0].colon.decode() or fallback.colon
    comma = _comma(raw, first_two, colon) if unit is None else fallback.comma
    newline = ("\r\n" if "\r\n" in lead else "\n") if unit is not None else fallback.newline
    return Style(newline, unit, comma, colon, fallback.ascii_only)


def document_style(raw: bytes) -> Style:
    """The layout of the whole document, as its outermost object shows it."""
    ascii_only = raw.isascii() and _ESCAPED_NON_ASCII.search(raw) is not None
    newline = "\r\n" if b"\r\n" in raw[:4096] else "\n"
    return style_of(raw, space_end(raw, 0), Style(newline=newline, ascii_only=ascii_only))


def margin_at(raw: bytes, position: int) -> str:
    """The indentation of the line on which byte `position` lies."""
    line = raw[raw.rfind(b"\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def _comma(raw: bytes, first_two: list[Member], colon: str) -> str:
    if len(first_two) == 2:
        return raw[first_two[0].end : first_two[1].start].decode()
    return ", " if colon.endswith(" ") else ","


def _last_line(text: str) -> str:
    return text[text.rindex("\n") + 1 :]
