"""Where new members of a JSON container go, and the layout they take from their neighbors there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vocabsurgeon.checkpoint.json_scan import Member
from vocabsurgeon.checkpoint.json_style import Style, margin_at, style_of


@dataclass(frozen=True)
class Place:
    """The bytes `start` to `end` give way to `before`, the members joined by `separator`, and `after`."""

    start: int
    end: int
    before: str
    separator: str
    after: str
    margin: str
    style: Style

    def render(self, key: str | None, value: Any) -> str:
        """One member (`key` None: an element of an array) as text. Raises ValueError on NaN and infinities."""
        text = self.style.dump(value, self.margin)
        return text if key is None else self.style.quote(key) + self.style.colon + text

    def text(self, new: list[tuple[str | None, Any]]) -> str:
        """What takes the place of the bytes. Raises ValueError on NaN and infinities."""
        return self.before + self.separator.join(self.render(key, value) for key, value in new) + self.after


def place_behind(raw: bytes, opening: int, end: int, held: list[Member], document: Style) -> Place:
    """The place behind the last of the members `held` in the container from byte `opening` to `end`."""
    if held:
        return _behind_last(raw, opening, held, document)
    if document.unit is None:
        return Place(opening + 1, end - 1, "", document.comma, "", "", document)
    base = margin_at(raw, opening)
    margin = base + document.unit
    line = document.newline + margin
    return Place(opening + 1, end - 1, line, "," + line, document.newline + base, margin, document)


def _behind_last(raw: bytes, opening: int, held: list[Member], document: Style) -> Place:
    last = held[-1]
    separator = _separator(raw, opening, held, document)
    margin = separator[separator.rindex("\n") + 1 :] if "\n" in separator else margin_at(raw, last.start)
    style = document if "\n" in separator else replace(document, unit=None)
    if raw[last.value : last.value + 1] in (b"{", b"["):
        style = style_of(raw, last.value, style)
    if isinstance(last.key, str):
        style = replace(style, colon=last.colon.decode())
    return Place(last.end, last.end, separator, separator, "", margin, style)


def _separator(raw: bytes, opening: int, held: list[Member], document: Style) -> str:
    if len(held) > 1:
        return raw[held[-2].end : held[-1].start].decode()
    lead = raw[opening + 1 : held[0].start].decode()
    return "," + lead if "\n" in lead else document.comma
