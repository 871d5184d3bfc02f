"""`NewRowsAsPlanned`: each written row holds what its expression gives on the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import HEAD, INPUT, shelved
from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, Normal
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises import NewRowsAsPlanned


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("extend", NewRowsAsPlanned, tmp_path).holds()


@pytest.mark.parametrize("key", [INPUT, HEAD])
@pytest.mark.parametrize("row", [64, 65])
def test_fails_where_a_bit_of_a_new_row_differs(key: str, row: int, tmp_path: Path) -> None:
    pair = Pair("extend", NewRowsAsPlanned, tmp_path)
    flip(pair.out, key, row)
    assert f"row {row}" in pair.broken()


def test_does_not_speak_of_old_rows(tmp_path: Path) -> None:
    pair = Pair("extend", NewRowsAsPlanned, tmp_path)
    flip(pair.out, INPUT, 0)
    assert pair.holds()


@pytest.mark.parametrize(
    "row",
    [(64, CopyOf(0)), (-1, CopyOf(0)), (0, CopyOf(64)), (0, MeanOf((1, 64))), (0, MeanOf((-1,))), (0, Normal(-1, 1.0))],
    ids=str,
)
def test_fails_where_the_record_speaks_of_rows_that_are_not(row: tuple[int, CopyOf]) -> None:
    folder = Checkpoint.open(shelved())
    assert NewRowsAsPlanned(INPUT, 0, (row,)).check(folder, folder).passed is False
    assert NewRowsAsPlanned("absent", 0, ()).check(folder, folder).passed is False
    assert NewRowsAsPlanned(INPUT, 5, ()).check(folder, folder).passed is False
