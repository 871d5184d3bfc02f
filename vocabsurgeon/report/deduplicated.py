"""The sections of `dedupe`'s text report."""

from __future__ import annotations

from rich.table import Table

from vocabsurgeon.report.sections import STYLES, Document, Parts, line, size_text

_SHOWN = 12
"""How many merged contents are listed without `-v`."""


def outcome(document: Document, verbose: bool) -> Parts:
    """Whether anything was written, where, and what it saves."""
    if document["dry_run"]:
        yield line(("bold", "dry run: "), ("", "nothing was written"))
    elif document["out"] is None:
        yield line(("bold red", "not written: "), ("", "a check failed, see below"))
    elif not document["changed"]:
        yield line(("bold", "written, unchanged: "), ("", document["out"]))
    else:
        yield line(("bold green", "written: "), ("", document["out"]))
    yield line(("bold", document["summary"]))


def size(document: Document, verbose: bool) -> Parts:
    """Bytes before and after."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, justify in (("", "left"), ("before", "right"), ("after", "right")):
        grid.add_column(name, justify="left" if justify == "left" else "right")
    before, after = document["bytes"]["before"], document["bytes"]["after"]
    for name in ("stored", "unique", "orphaned"):
        grid.add_row(name, f"{before[name]:,}", f"{after[name]:,}")
    yield grid


def merged(document: Document, verbose: bool) -> Parts:
    """What became one tensor and in what form, then what did not."""
    entries = document["merged"]
    for entry in entries if verbose else entries[:_SHOWN]:
        names = ", ".join(entry["tensors"][:4]) + (", …" if len(entry["tensors"]) > 4 else "")
        forms = ", ".join(entry["forms"])
        yield line(("green", f"{entry['relation']:<12}"), ("", f"{size_text(entry['bytes'])}  {names} → {forms}"))
    if not verbose and len(entries) > _SHOWN:
        yield line(("dim", f"… {len(entries) - _SHOWN} more (-v or --json)"))
    for entry in document["unfolded"]:
        yield line(("green", "in memory   "), ("", f"{entry['tensor']} → {', '.join(entry['forms'])}, once"))
    for entry in document["kept"]:
        yield line(("yellow", "kept twice  "), ("", f"{size_text(entry['bytes'])}  {', '.join(entry['tensors'][:4])}"))
    for entry in document["files_omitted"]:
        yield line(("yellow", "left out    "), ("", f"{entry['file']}: {entry['reason']}"))


def checked(document: Document, verbose: bool) -> Parts:
    """The weights against the source's, and the outputs before against after."""
    if document["weights_intact"] is not None:
        word = "passed" if document["weights_intact"] else "FAILED"
        yield line(("bold", "weights     "), (STYLES[word], word), ("", "  every byte compared with the source"))
    facts = document["parity"]
    if facts is None:
        if document["dry_run"]:
            return
        yield line(("bold", "outputs     "), ("yellow", "not checked"), ("", f": {document['parity_not_checked']}"))
        return
    word = "passed" if facts["passed"] else "FAILED"
    exact = (
        "bit for bit" if facts["bit_exact"] else f"max abs diff {facts['max_abs_diff']}, allowed {facts['tolerance']}"
    )
    told = f"  {facts['outputs']} outputs, {facts['values']:,} values: {exact}"
    yield line(("bold", "outputs     "), (STYLES[word], word), ("", told))
    for text in (*facts["reasons"], *facts["skipped"]) if verbose else facts["reasons"][:4]:
        yield line(("dim", f"            {text}"))
