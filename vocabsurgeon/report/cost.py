"""The sections on two different tables: how far apart they are, and what each way to tie them costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from vocabsurgeon.report.sections import Document, Parts, line, printable, size_text

_FIGURES = (
    ("kl_mean", "KL mean", "{:.4g}"),
    ("kl_p95", "KL p95", "{:.4g}"),
    ("top1_agreement", "top-1 agreement", "{:.1%}"),
    ("perplexity_before", "perplexity before", "{:.5g}"),
    ("perplexity_after", "after", "{:.5g}"),
)
"""Key, heading and format of each column; KL in nats per token."""


def comparison(document: Document, verbose: bool) -> Parts:
    """Two stored tables that were compared to the end, with the rows that agree least."""
    facts = document["tie"].get("comparison")
    if facts is None:
        return
    mean, low = (_number(facts[key], "{:.6f}") for key in ("cosine_mean", "cosine_p01"))
    parts = [
        f"cosine mean {mean}, 1st percentile {low}",
        f"abs difference max {facts['max_abs_diff']:.4g}, mean {_number(facts['mean_abs_diff'], '{:.4g}')}",
        f"relative distance {_number(facts['relative_frobenius'], '{:.4g}')}",
        f"best scale {_number(facts['best_scale'], '{:.6g}')}, {_number(facts['residual_after_scale'], '{:.4g}')} left",
        f"{_number(facts['equal_rows_share'], '{:.2%}')} of rows equal",
    ]
    parts += [f"{facts[key]:,} {label}" for key, label in _APART if facts[key]]
    yield line(("bold", "comparison  "), ("", "; ".join(parts)))
    if facts["worst_rows"]:
        yield line(("bold", "worst rows"))
        yield _worst(facts["worst_rows"])


_APART = (("zero_rows", "rows zero in one or both"), ("nonfinite_rows", "rows not finite"))


def cost(document: Document, verbose: bool) -> Parts:
    """The measured cost of each candidate, and greedy continuations side by side."""
    facts = document.get("cost")
    if facts is None:
        return
    if facts["reason"] is not None:
        yield line(("bold", "cost        "), ("yellow", f"not measured: {facts['reason']}"))
        return
    probe = facts["probe"]
    text = "random ids" if probe["random_ids"] else probe["source"]
    what = f"{probe['tokens']:,} tokens in {probe['passages']} chunks of {text}, run in {facts['dtype']}"
    yield line(("bold", "cost        "), ("", f"against the original, KL in nats per token; {what}"))
    for text in facts["notes"]:
        yield line(("yellow", f"            {text}"))
    yield _figures(facts)
    for entry in facts["candidates"]:
        if entry["note"]:
            yield line(("yellow", f"            {entry['candidate']}: not measured: {entry['note']}"))
    yield from _continuations(facts, verbose)


def _figures(facts: Mapping[str, Any]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    grid.add_column("keep")
    for _, heading, _ in _FIGURES:
        grid.add_column(heading, justify="right")
    grid.add_column("saves", justify="right")
    for entry in facts["candidates"]:
        best = entry["candidate"] == facts["best"] and len(facts["candidates"]) > 1
        numbers = [_number(entry[key], form) for key, _, form in _FIGURES]
        name = entry["candidate"] + (" (least)" if best else "")
        grid.add_row(name, *numbers, size_text(entry["bytes_saved"]), style="green" if best else None)
    return grid


def _continuations(facts: Mapping[str, Any], verbose: bool) -> Parts:
    """Each prompt with what the original and every candidate go on with; of the best alone unless `verbose`."""
    shown = [entry for entry in facts["candidates"] if entry["continuations"]]
    shown = shown if verbose else [entry for entry in shown if entry["candidate"] == facts["best"]]
    for number, first in enumerate(shown[0]["continuations"] if shown else ()):
        yield line(("bold", "continued   "), ("", _quoted(first["prompt"])))
        yield line(("", f"  {'original':<18}"), ("", _quoted(first["original"])))
        for entry in shown:
            yield line(("", f"  {entry['candidate']:<18}"), ("", _quoted(entry["continuations"][number]["tied"])))


def _worst(rows: list[Mapping[str, Any]]) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, side in (("id", "right"), ("cosine", "right"), ("token", "left")):
        grid.add_column(name, justify="right" if side == "right" else "left")
    for row in rows:
        token = "–" if row["token"] is None else row["token"]
        grid.add_row(str(row["id"]), f"{row['cosine']:.6f}", Text(printable(token)))
    return grid


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _quoted(text: str) -> str:
    return text.replace("\n", "⏎").strip() or "(nothing)"
