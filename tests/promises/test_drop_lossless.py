"""`DropLossless`: what was dropped survives bit for bit under the other name."""

from __future__ import annotations

from pathlib import Path

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import HEAD, INPUT
from vocabsurgeon.surgery.promises import DropLossless


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("tie", DropLossless, tmp_path).holds()


def test_fails_where_a_bit_of_what_is_left_differs(tmp_path: Path) -> None:
    pair = Pair("tie", DropLossless, tmp_path)
    flip(pair.out, INPUT, 63)
    assert INPUT in pair.broken()


def test_fails_where_what_was_dropped_was_another(tmp_path: Path) -> None:
    pair = Pair("tie", DropLossless, tmp_path)
    flip(pair.source, HEAD, 1)
    assert HEAD in pair.broken()
