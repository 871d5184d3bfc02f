"""The section of an audit that tells what a session takes in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from vocabsurgeon.report.sections import Document, Parts, line, printable, size_text

_BYTES = ("resident_anonymous", "resident_file", "peak")
_SECONDS = ("load_s", "step_s", "prefill_s")


def runtime(document: Document, verbose: bool) -> Parts:
    """One row for each set of options, a table for each graph."""
    facts = document.get("runtime")
    if facts is None:
        reason = document.get("runtime_not_checked")
        if reason not in (None, "not asked for"):
            yield line(("bold", "memory      "), ("yellow", f"not checked: {reason}"))
        return
    for name, graph in facts["graphs"].items():
        yield line(("bold", "memory      "), ("", f"of a session of {name}, {size_text(graph['weights'])} of weights"))
        yield _grid(graph)
        for measured in (graph, *graph["presets"].values()):
            if measured["not_run"]:
                yield line(("yellow", f"            {measured['not_run']}"))


def _grid(graph: Mapping[str, Any]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    heads = ("options", "anonymous", "mapped", "peak", "÷ weights", "tables", "load", "1 token", "64 tokens")
    for head in heads:
        grid.add_column(head, justify="left" if head == "options" else "right")
    for name, measured in (("default", graph), *graph["presets"].items()):
        peak = measured["peak"]
        ratio = f"{peak / graph['weights']:.2f}" if peak is not None and graph["weights"] else "–"
        sizes = ("–" if measured[key] is None else size_text(measured[key]) for key in _BYTES)
        times = ("–" if measured[key] is None else f"{measured[key]:.3g} s" for key in _SECONDS)
        copies = "–" if measured["table_copies"] is None else str(measured["table_copies"])
        grid.add_row(Text(printable(name)), *sizes, ratio, copies, *times)
    return grid
