"""The table of an audit: which tensors hold one content, worst first, where they lie and what reads them."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from vocabsurgeon.report.sections import Document, Parts, line, printable, size_text

_SHOWN, _TENSORS = 12, 6
"""How many entries, and tensors of each, are listed without `-v`."""


def duplicates(document: Document, verbose: bool) -> Parts:
    """A row for each tensor; bytes and relation stand before the first of an entry."""
    entries = document.get("duplicates") or ()
    if not entries:
        return
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("wasted", "relation", "tensor", "read by", "file"):
        grid.add_column(name, justify="right" if name == "wasted" else "left")
    for entry in entries if verbose else entries[:_SHOWN]:
        names = entry["tensors"] if verbose else entry["tensors"][:_TENSORS]
        for index, name in enumerate(names):
            first = (size_text(entry["bytes"]), entry["relation"]) if index == 0 else ("", "")
            uses = ", ".join(entry["uses"].get(name, ())) or "–"
            file = Text(printable(entry["files"][name]), style="dim")
            grid.add_row(first[0], Text(first[1], style="yellow"), Text(printable(name)), uses, file)
        if len(names) < len(entry["tensors"]):
            grid.add_row("", "", Text(f"… {len(entry['tensors']) - len(names)} more", style="dim"), "", "")
    yield grid
    if not verbose and len(entries) > _SHOWN:
        yield line(("dim", f"… {len(entries) - _SHOWN} more (-v or --json)"))
