"""`CopyIdentical`: the new head holds the bits of the table it was copied from."""

from __future__ import annotations

from pathlib import Path

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import HEAD, with_tensors
from vocabsurgeon.surgery.promises import CopyIdentical


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("untie", CopyIdentical, tmp_path).holds()


def test_fails_where_a_bit_of_the_copy_differs(tmp_path: Path) -> None:
    pair = Pair("untie", CopyIdentical, tmp_path)
    flip(pair.out, HEAD, 63)
    assert HEAD in pair.broken()


def test_fails_where_the_copy_is_missing_or_of_another_type(tmp_path: Path) -> None:
    pair = Pair("untie", CopyIdentical, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({HEAD: tensors[HEAD].half()}))
    assert HEAD in pair.broken()
    with_tensors(pair.out, lambda tensors: tensors.pop(HEAD))
    assert "missing" in pair.broken()
