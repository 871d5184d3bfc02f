"""What two different tables are called, and the tokens of their worst rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.surgery.shelf import HEAD, INPUT, taken, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.comparison import Comparison, Likeness
from vocabsurgeon.vocabulary.describe import describe


def _compared(folder: Path, change: Any, dtype: str = "float32") -> Comparison:
    def edit(tensors: dict[str, torch.Tensor]) -> None:
        torch.manual_seed(0)
        tensors[HEAD] = change(tensors[INPUT].float()).to(tensors[HEAD].dtype)

    source = Checkpoint.open(with_tensors(taken(folder, tied=False, dtype=dtype), edit))
    comparison = describe(source, compare=True).tie.comparison
    assert comparison is not None
    return comparison


def _noise(table: torch.Tensor, share: float) -> torch.Tensor:
    return table + share * table.std() * torch.randn_like(table)


@pytest.mark.parametrize(
    ("change", "likeness", "words"),
    [
        (lambda table: table.bfloat16().float(), Likeness.ROUNDING, "they differ by rounding to bfloat16 alone"),
        (lambda table: table.half().float(), Likeness.ROUNDING, "they differ by rounding to float16 alone"),
        (lambda table: _noise(table, 3e-3), Likeness.NEAR, "they are near copies: relative distance 0.003"),
        (lambda table: _noise(table * 25, 3e-3), Likeness.SCALED, "they are near copies after a scale of 25"),
        (lambda table: _noise(table, 0.5), Likeness.DIFFERENT, "they are different tables: relative distance 0.5"),
    ],
)
def test_two_tables_are_called_what_they_are(tmp_path: Path, change: Any, likeness: Likeness, words: str) -> None:
    comparison = _compared(tmp_path / "model", change)
    assert comparison.likeness is likeness
    assert comparison.lines()[1].startswith(words)


def test_tables_a_step_of_their_own_type_apart_are_called_rounded(tmp_path: Path) -> None:
    comparison = _compared(tmp_path / "model", lambda table: table * (1 + 2**-8), "bfloat16")
    assert comparison.likeness is Likeness.ROUNDING and comparison.distance.rounding == "bfloat16"


def test_worst_rows_carry_their_tokens(tmp_path: Path) -> None:
    def turned(table: torch.Tensor) -> torch.Tensor:
        table = _noise(table, 1e-3)
        table[17] *= -1
        return table

    told = _compared(tmp_path / "model", turned).to_dict()
    assert told["worst_rows"][0]["id"] == 17 and told["worst_rows"][0]["token"] == "w17"
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_without_a_tokenizer_worst_rows_are_numbers(tmp_path: Path) -> None:
    folder = taken(tmp_path / "model", tied=False)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    comparison = describe(Checkpoint.open(folder), compare=True).tie.comparison
    assert comparison is not None and set(comparison.tokens) == {None} and len(comparison.tokens) == 8


def test_evidence_says_what_the_tables_are_to_each_other(tmp_path: Path) -> None:
    folder = taken(tmp_path / "model", tied=False)
    assert any("different tables" in text for text in describe(Checkpoint.open(folder), compare=True).tie.evidence)
    assert not any("different tables" in text for text in describe(Checkpoint.open(folder)).tie.evidence)
