"""The sections that text reports are made of: each takes the document and gives lines or a table, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

Document = Mapping[str, Any]
Parts = Iterator[Text | Table]

STYLES = {"passed": "green", "FAILED": "bold red", "not checked": "yellow"}
SEVERITIES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def title(document: Document, verbose: bool) -> Parts:
    """Which model this is."""
    yield line(
        ("bold", f"{document['architecture'] or 'unknown architecture'}"),
        ("dim", f"  model_type {document['model_type']}"),
    )


def tie(document: Document, verbose: bool) -> Parts:
    """The tie state, what was declared and what it comes to, and the evidence."""
    state = document["tie"]
    declared = {True: "declared tied", False: "declared untied", None: "nothing declared"}[state["declared"]]
    yield line(
        ("bold", "tie state   "),
        ("bold cyan", state["state"]),
        ("", f"  ({declared}, effective: {state['effective'] or '–'})"),
    )
    for text in state["evidence"]:
        yield line(("dim", f"            {text}"))


def tie_change(document: Document, verbose: bool) -> Parts:
    """The tie state before and after; nothing where a result was looked at alone."""
    if "before" not in document:
        return
    before, after = document["before"]["tie"]["state"], document["tie"]["state"]
    shown = after if before == after else f"{before} → {after}"
    yield line(("bold", "tie state   "), ("bold cyan", shown))


def live(document: Document, verbose: bool) -> Parts:
    """What the model in memory does, where it was loaded."""
    facts = document.get("live")
    if facts is None:
        return
    agrees = facts["agrees"]
    words = {True: "agrees with the files", False: "DISAGREES with the files", None: "not checked"}
    style = {True: "green", False: "bold red", None: "yellow"}
    yield line(("bold", "in memory   "), (style[agrees], words[agrees]))
    shown = {True: "yes", False: "no", None: "–"}
    answers = [f"{label} {shown[facts[name]]}" for name, label in _LIVE]
    entries = "–" if facts["optimizer_entries"] is None else facts["optimizer_entries"]
    yield line(("", f"            {', '.join(answers)}, optimizer entries {entries}"))
    yield line(("", f"            after save and load: {facts['after_round_trip'] or 'not checked'}"))
    if facts["missing_keys"]:
        yield line(("yellow", f"            in no file, random: {', '.join(facts['missing_keys'])}"))
    for text in facts["evidence"]:
        yield line(("dim", f"            {text}"))


_LIVE = (("identical", "one parameter"), ("same_storage", "one storage"), ("write_through", "write-through"))


def tables(document: Document, verbose: bool) -> Parts:
    """The vocabulary tables, a row each."""
    grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for table in document["tables"]:
        shape = " × ".join(str(size) for size in table["shape"])
        grid.add_row(
            Text(f"{table['role']:<11}"),
            Text(printable(table["key"])),
            shape,
            table["dtype"],
            size_text(table["bytes"]),
            Text(printable(table["file"]), style="dim"),
        )
    yield line(("bold", "tables"))
    yield grid
    for entry in document["tables_not_understood"]:
        told = f"not understood  {entry['key']} {entry['shape']} in {entry['file']}: {entry['reason']}"
        yield line(("yellow", f"            {printable(told)}"))
    if document["tables_evidence"]:
        yield line(("", f"            found by {document['tables_found_by']}"))
    for text in document["tables_evidence"]:
        yield line(("dim", f"            {text}"))


def vocabulary(document: Document, verbose: bool) -> Parts:
    """Ids against rows."""
    facts = document["vocabulary"]
    if facts["ids"] is None:
        yield line(("bold", "vocabulary  "), ("", f"{facts['rows']:,} rows; no tokenizer, ids not checked"))
        return
    spare = f"{facts['spare_rows']:,} spare rows"
    yield line(
        ("bold", "vocabulary  "),
        ("", f"{facts['rows']:,} rows, {facts['ids']:,} ids, highest id {facts['max_id']:,}, {spare}"),
    )
    for name, label in (("ids_without_row", "ids without a row"), ("id_holes", "unused ids below the highest")):
        if facts[name]:
            yield line(("yellow", f"            {len(facts[name])} {label}: {some(facts[name])}"))


def size(document: Document, verbose: bool) -> Parts:
    """Bytes, and what tying or untying would change."""
    facts = document["bytes"]
    text = f"{size_text(facts['total'])} of tensors, {size_text(facts['tables'])} in vocabulary tables"
    if facts["saved_if_tied"]:
        text += f"; one table instead of two would save {size_text(facts['saved_if_tied'])}"
    if facts["added_if_untied"]:
        text += f"; untying would add {size_text(facts['added_if_untied'])}"
    yield line(("bold", "bytes       "), ("", text))


def outcome(document: Document, verbose: bool) -> Parts:
    """Whether anything was written, where."""
    if document["out"] is None:
        yield line(("bold red", "not written: "), ("", "a promise was broken, see below"))
    elif not document["changed"]:
        yield line(("bold", "written, unchanged: "), ("", document["out"]))
    else:
        yield line(("bold green", "written: "), ("", document["out"]))


def tokens(document: Document, verbose: bool) -> Parts:
    """What became of each token, and of the rows."""
    if "tokens" not in document:
        return
    old_rows = document["rows_before"]
    replaced = sum(entry["status"] == "replaced" and entry["id"] < old_rows for entry in document["tokens"])
    yield line(
        ("bold", "rows        "),
        ("", f"{document['rows_before']:,} → {document['rows_after']:,}: {document['rows_grown']} rows grown, "),
        ("", f"{document['rows_reinitialised'] - replaced} spare rows re-initialised, "),
        ("", f"{replaced} rows of replaced tokens re-initialised, " if replaced else ""),
        ("", f"{document['rows_padding']} rows padding"),
    )
    if document["rows_filled"]:
        yield line(("yellow", f"            ids that had no row and got one: {some(document['rows_filled'])}"))
    if document["tokens"]:
        yield _token_table(document["tokens"], len(document["tokens"]) if verbose else 20)
    for entry in document["tokens"]:
        for text in entry["notes"]:
            yield line(("yellow", f"            {entry['content']}: {text}"))
        if entry.get("untrained_pieces"):
            pieces = some(entry["untrained_pieces"])
            yield line(("yellow", f"            {entry['content']}: rows of pieces that look never trained: {pieces}"))


def _token_table(entries: list[Document], shown: int) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("token", "id", "status", "init", "norm", "percentile", "pieces"):
        grid.add_column(name, justify="right" if name in ("id", "norm", "percentile") else "left")
    for entry in entries[:shown]:
        norm = entry.get("norm")
        grid.add_row(
            Text(printable(entry["content"])),
            str(entry["id"]),
            entry["status"],
            Text(printable(entry["init"] or "–")),
            "–" if norm is None else f"{norm:.4g}",
            "–" if norm is None else f"{entry['norm_percentile']:.0f}",
            Text(printable(" ".join(entry["pieces"][:12])), style="dim"),
        )
    if len(entries) > shown:
        grid.add_row(f"… {len(entries) - shown} more (-v or --json)")
    return grid


def account(document: Document, verbose: bool) -> Parts:
    """Files that were left out, went stale or are of no known kind, with the reason; with `verbose` every file."""
    for label, fate, style in _FATES:
        entries = [entry for entry in document.get("files", ()) if entry["fate"] == fate]
        told = [entry for entry in entries if verbose or (entry["reason"] and entry["kind"] != "weights")]
        for entry in told if verbose else told[:_MOST_FILES]:
            yield line((style, f"{label:<12}"), ("", f"{entry['file']}: {entry['reason'] or entry['kind']}"))
        if len(told) > _MOST_FILES and not verbose:
            yield line((style, f"{label:<12}"), ("", f"and {len(told) - _MOST_FILES} more (-v or --json)"))


_FATES = (
    ("left out", "left out", "yellow"),
    ("stale", "stale", "yellow"),
    ("carried", "kept", "dim"),
    ("changed", "changed", "dim"),
    ("added", "added", "dim"),
)
_MOST_FILES = 12


def notes(document: Document, verbose: bool) -> Parts:
    """What else to know."""
    for text in document.get("notes", ()):
        yield line(("bold", "note        "), ("", text))


def proof(document: Document, verbose: bool) -> Parts:
    """Each promise with its verdict; the evidence of failures, or all of it."""
    words = {True: "passed", False: "FAILED", None: "not checked"}
    yield line(("bold", "proof"))
    for name, passed in document["proof"].items():
        word = words[passed]
        yield line(("", f"  {name.replace('_', ' '):<30}"), (STYLES[word], word))
        if passed is False or verbose:
            for text in document["proof_evidence"][name]:
                yield line(("dim", f"      {text}"))


def promised(document: Document, verbose: bool) -> Parts:
    """Where the promises come from."""
    yield line(("bold", "promises    "), ("", f"from {document['promises_from']}"))


def changes(document: Document, verbose: bool) -> Parts:
    """Every difference."""
    yield line(("bold", "differences"), ("", "" if document["differences"] else ": none"))
    for text in document["differences"]:
        yield line(("", f"  {text}"))


def findings(document: Document, verbose: bool) -> Parts:
    """The findings of `check`, worst first."""
    if not document["findings"]:
        yield line(("green", "nothing found"))
    for entry in document["findings"]:
        yield line((SEVERITIES[entry["severity"]], f"{entry['severity']:<8}"), ("", f" {entry['message']}"))
        yield line(("dim", f"         fix: {entry['fix']}"))


def plan(document: Document) -> Parts:
    """What `--dry-run` would do."""
    steps = document["plan"]
    yield line(("bold", "plan (nothing was written)"))
    for edit in steps["tensor_edits"]:
        rows = f", {len(edit['rows'])} rows written" if "rows" in edit else ""
        rows += f", {len(edit['values'])} values" if "values" in edit else ""
        to = f" → {edit['size']} rows" if "size" in edit else ""
        sources = edit.get("sources") or [edit[key] for key in ("source",) if key in edit]
        to += f" from {' and '.join(sources)}" if sources else ""
        yield line(("", f"  {edit['is']} {edit['key']}{to}{rows}"))
    for entry in steps["files_written"]:
        yield line(("", f"  WriteFile {entry['file']} ({entry['bytes']:,} bytes)"))
    for part in account(steps, False):
        yield Text("  ") + part if isinstance(part, Text) else part
    if not document["changed"]:
        yield line(("", "  nothing changes: every file is copied"))
    yield from tokens(document, False)
    yield line(("bold", "promises    "), ("", ", ".join(dict.fromkeys(steps["promises"]))))
    yield from notes(document, False)


def exported(document: Document, verbose: bool) -> Parts:
    """Whether the export was kept, where."""
    if document.get("out"):
        yield line(("bold green", "written: "), ("", document["out"]))
    elif document["passed"]:
        yield line(("bold", "not written: "), ("", "a dry run, which passed"))
    else:
        yield line(("bold red", "not written: "), ("", "the export did not pass, see below"))


def audited(document: Document, verbose: bool) -> Parts:
    """Bytes of an export and the one line a manager understands."""
    facts = document["bytes"]
    if document.get("summary"):
        yield line(("bold", document["summary"]))
    grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name in ("stored", "referenced", "unique", "expected", "orphaned", "graph"):
        value = facts.get(name)
        grid.add_row(name, "–" if value is None else f"{value:,}", "" if value is None else size_text(value))
    ratio = facts.get("ratio")
    grid.add_row("ratio", "–" if ratio is None else f"{ratio:.4f}", "")
    yield grid


def parity(document: Document, verbose: bool) -> Parts:
    """Logits of the export against the model's; nothing where there is no model to compare with."""
    if "parity" not in document:
        return
    facts = document["parity"]
    if facts is None:
        reason = document.get("parity_not_checked")
        yield line(("bold", "parity      "), ("yellow", "not checked"), ("", f": {reason}" if reason else ""))
        return
    word = {True: "passed", False: "FAILED", None: "not checked"}[facts["passed"]]
    numbers = ", ".join(
        f"{label} {facts[name]:.4g}" if isinstance(facts[name], float) else f"{label} {facts[name]}"
        for name, label in _PARITY
        if facts.get(name) is not None
    )
    yield line(("bold", "parity      "), (STYLES[word], word), ("", f"  {numbers}"))
    for text in facts.get("evidence") or ():
        yield line(("dim", f"            {text}"))


_PARITY = (
    ("max_abs_diff", "max abs diff"),
    ("tolerance", "tolerance"),
    ("mean_kl", "mean KL"),
    ("top1_agreement", "top-1 agreement"),
    ("greedy_equal", "greedy equal"),
)


def line(*parts: tuple[str, str]) -> Text:
    """Styled text; names from files can neither color nor break it."""
    text = Text()
    for style, part in parts:
        text.append(printable(part), style=style or None)
    return text


def printable(text: str) -> str:
    """`text` with control characters and lone surrogates escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def some(numbers: Iterable[int]) -> str:
    """The first numbers of a list."""
    listed = [str(number) for number in numbers]
    return ", ".join(listed[:8]) + (f", … ({len(listed)})" if len(listed) > 8 else "")


def size_text(count: int) -> str:
    """Bytes in decimal units, as file managers and hubs give them."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
