"""`OldRowsIdentical`: every row that was not written keeps its bits, and none is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import HEAD, INPUT, shelved, taken, tensors_of, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises import OldRowsIdentical


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    pair = Pair("extend", OldRowsIdentical, tmp_path)
    assert pair.holds() and {promise.key for promise in pair.promises if isinstance(promise, OldRowsIdentical)} == {
        INPUT,
        HEAD,
    }


@pytest.mark.parametrize("key", [INPUT, HEAD])
@pytest.mark.parametrize("row", [0, 31, 63])
def test_fails_where_a_bit_of_an_old_row_differs(key: str, row: int, tmp_path: Path) -> None:
    pair = Pair("extend", OldRowsIdentical, tmp_path)
    flip(pair.out, key, row)
    assert key in pair.broken()


def test_does_not_speak_of_new_rows(tmp_path: Path) -> None:
    pair = Pair("extend", OldRowsIdentical, tmp_path)
    flip(pair.out, INPUT, 64)
    assert pair.holds()


@pytest.mark.parametrize(("row", "passed"), [(4, False), (5, True), (6, False), (7, True), (8, False)])
def test_fails_right_beside_a_written_row(row: int, passed: bool, tmp_path: Path) -> None:
    before, after = Checkpoint.open(shelved()), taken(tmp_path / "after")
    flip(after, INPUT, row)
    assert OldRowsIdentical(INPUT, 0, 64, (7, 5)).check(before, Checkpoint.open(after)).passed is passed


def _table(rows: int, axis: int, tmp_path: Path) -> Path:
    values = torch.arange(1.0, 65.0)[:rows]
    bias = values if axis == 0 else values[None, :]
    folder = taken(tmp_path / f"{rows}-{axis}")
    return with_tensors(folder, lambda tensors: tensors.update(bias=bias.clone()))


@pytest.mark.parametrize("axis", [0, 1])
def test_fails_where_rows_are_cut(axis: int, tmp_path: Path) -> None:
    long, short = (Checkpoint.open(_table(rows, axis, tmp_path)) for rows in (64, 60))
    verdict = OldRowsIdentical("bias", axis, 60, ()).check(long, short)
    assert verdict.passed is False and "cut" in verdict.evidence[0]
    grown = OldRowsIdentical("bias", axis, 64, tuple(range(60, 64))).check(short, long)
    assert grown.passed is True
    changed = OldRowsIdentical("bias", axis, 64, ()).check(long, long)
    assert changed.passed is True


@pytest.mark.parametrize("axis", [0, 1])
def test_fails_where_an_entry_of_a_vector_differs(axis: int, tmp_path: Path) -> None:
    one = _table(64, axis, tmp_path)
    other = with_tensors(_table(63, axis, tmp_path), lambda tensors: tensors.update(bias=_changed(one, axis)))
    before, after = Checkpoint.open(one), Checkpoint.open(other)
    assert OldRowsIdentical("bias", axis, 64, (5,)).check(before, after).passed is True
    assert OldRowsIdentical("bias", axis, 64, (6,)).check(before, after).passed is False


def _changed(folder: Path, axis: int) -> torch.Tensor:
    bias = tensors_of(folder)["bias"].clone()
    bias.view(-1)[5] += 1
    return bias


def test_fails_where_the_table_or_its_axis_is_missing(tmp_path: Path) -> None:
    folder = Checkpoint.open(_table(64, 0, tmp_path))
    for key, axis in (("absent", 0), ("bias", 7), ("bias", -3)):
        assert OldRowsIdentical(key, axis, 64, ()).check(folder, folder).passed is False
