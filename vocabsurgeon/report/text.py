"""A result's JSON document as text for a person: one screen, the verdict first. Imports no other layer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vocabsurgeon.report import sections

Document = Mapping[str, Any]
PIPED_WIDTH = 200
"""Columns where nobody looks: wide enough that no name is cut in a log."""


def show(document: Document, *, color: bool = True, verbose: bool = False) -> None:
    """Print `document` on stdout, laid out by its schema."""
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    console = Console(file=sys.stdout, highlight=False, no_color=not color, soft_wrap=True, width=width)
    command = str(document["schema"]).removeprefix("vocabsurgeon.").split("/")[0]
    for part in _parts(command, document, verbose):
        console.print(part)


def _parts(command: str, document: Document, verbose: bool) -> Iterable[Text | Table]:
    if document.get("refused"):
        return sections.refusal(document)
    if document.get("dry_run"):
        return sections.plan(document)
    layout = _LAYOUTS.get(command, ())
    return [part for section in layout for part in section(document, verbose)]


Section = Callable[[Document, bool], Iterable[Text | Table]]

_DESCRIBED: tuple[Section, ...] = (sections.title, sections.tie, sections.tables, sections.vocabulary, sections.size)
_CHANGED: tuple[Section, ...] = (
    sections.outcome,
    sections.tie_change,
    sections.tables,
    sections.vocabulary,
    sections.tokens,
    sections.omitted,
    sections.notes,
    sections.proof,
)
_LAYOUTS: dict[str, tuple[Section, ...]] = {
    "inspect": _DESCRIBED,
    "check": (sections.title, sections.findings),
    "extend": _CHANGED,
    "tie": _CHANGED,
    "untie": _CHANGED,
    "verify": (sections.tie_change, sections.promised, sections.changes, sections.proof),
    "export": (sections.exported, sections.audited, sections.duplicates, sections.parity, sections.notes),
    "audit": (sections.audited, sections.duplicates, sections.parity, sections.notes),
}
