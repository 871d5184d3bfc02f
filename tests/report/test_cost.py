"""The cost of tying and the comparison of two tables as a person reads them."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from vocabsurgeon.report.cost import comparison
from vocabsurgeon.report.text import show
from vocabsurgeon.surgery.cost.result import Continuation, Cost, CostTable

INPUT = Cost("input", 0.25, 1.5, 0.875, 12.5, 13.25, (Continuation("a\nb", "one", "two\x1b[31m"),), 4096, 48)
MEAN = Cost("mean", 0.125, 0.5, 0.95, 12.5, 12.75, (Continuation("a\nb", "one", "three"),), 4096, 48)
FAILED = Cost("output", bytes_saved=4096, note="its logits are not finite")


def _shown(capsys: pytest.CaptureFixture[str], table: CostTable, verbose: bool = False) -> str:
    document = {"schema": "vocabsurgeon.tie/1", "refused": True, "cost": table.to_dict()}
    show(document, color=False, verbose=verbose)
    return capsys.readouterr().out


def test_every_figure_is_shown_and_the_least_cost_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    text = _shown(capsys, CostTable((INPUT, MEAN, FAILED), "words", 8, 48, dtype="float32", notes=("take care",)))
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert rows["input"].split() == ["input", "0.25", "1.5", "87.5%", "12.5", "13.25", "4.1", "kB"]
    assert "mean (least)" in text and "take care" in text and "48 tokens in 8 chunks of words" in text
    assert "output: not measured: its logits are not finite" in text


def test_continuations_of_the_best_stand_beside_the_original_and_of_all_when_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = CostTable((INPUT, MEAN), "words", 8, 48, dtype="float32")
    text = _shown(capsys, table)
    assert "a⏎b" in text and "one" in text and "three" in text and "two" not in text
    assert "two\\x1b[31m" in _shown(capsys, table, verbose=True)


def test_what_was_not_measured_is_said_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    blank = tuple(Cost(name, bytes_saved=4096) for name in ("input", "mean"))
    assert "not measured: no such class" in _shown(capsys, CostTable(blank, "words", reason="no such class"))


def test_a_refusal_without_a_cost_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show({"schema": "vocabsurgeon.tie/1", "refused": True, "cost": None})
    assert capsys.readouterr().out == ""


def test_tables_that_were_not_compared_are_not_mentioned() -> None:
    assert list(comparison({"tie": {"comparison": None}}, verbose=False)) == []


def test_random_ids_are_not_called_text(capsys: pytest.CaptureFixture[str]) -> None:
    table = CostTable((INPUT,), "built-in sample", 8, 48, random_ids=True, dtype="float32")
    text = _shown(capsys, table)
    assert "chunks of random ids" in text and "built-in sample" not in text


def _document() -> dict[str, Any]:
    facts = {
        "likeness": "near",
        "equal_rows_share": 0.25,
        "zero_rows": 3,
        "nonfinite_rows": 0,
        "max_abs_diff": 0.5,
        "mean_abs_diff": 0.125,
        "cosine_mean": 0.75,
        "cosine_p01": 0.5,
        "worst_rows": [{"id": 7, "token": "a\nb", "cosine": 0.25}, {"id": 9, "token": None, "cosine": 0.5}],
        "relative_frobenius": 0.0625,
        "best_scale": 1.5,
        "residual_after_scale": None,
    }
    return {"tie": {"comparison": facts}}


def test_a_comparison_names_the_worst_rows_with_their_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    for part in comparison(_document(), verbose=False):
        Console(width=200).print(part)
    text = capsys.readouterr().out
    assert "cosine mean 0.750000, 1st percentile 0.500000" in text
    assert "25.00% of rows equal; 3 rows zero in one or both" in text and "rows not finite" not in text
    assert "best scale 1.5, – left" in text
    assert ["7", "0.250000", "a\\nb"] in [line.split() for line in text.splitlines()]
    assert ["9", "0.500000", "–"] in [line.split() for line in text.splitlines()]
