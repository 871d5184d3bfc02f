"""A result's JSON document as text for a person: one screen, the verdict first. Imports no other layer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vocabsurgeon.report import copies, deduplicated, sections
from vocabsurgeon.report import cost as costs
from vocabsurgeon.report.runtime import runtime

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
        return costs.cost(document, verbose)
    if document.get("dry_run") and "plan" in document:
        return [*sections.plan(document), *costs.cost(document, verbose)]
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
    sections.account,
    sections.notes,
    sections.proof,
)
_LAYOUTS: dict[str, tuple[Section, ...]] = {
    "inspect": (*_DESCRIBED, costs.comparison, sections.live),
    "check": (sections.title, sections.findings),
    "extend": _CHANGED,
    "tie": (*_CHANGED, costs.cost),
    "untie": _CHANGED,
    "verify": (
        sections.tie_change,
        sections.promised,
        sections.changes,
        sections.parity,
        sections.notes,
        sections.proof,
    ),
    "export": (
        sections.exported,
        sections.audited,
        copies.duplicates,
        sections.parity,
        sections.account,
        sections.notes,
    ),
    "dedupe": (deduplicated.outcome, deduplicated.size, deduplicated.merged, deduplicated.checked),
    "audit": (sections.audited, copies.duplicates, runtime, sections.parity, sections.notes),
}
