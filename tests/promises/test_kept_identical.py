"""`KeptIdentical`: one of two different tables is left bit for bit, the other is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import HEAD, INPUT, with_tensors
from vocabsurgeon.surgery.promises import KeptIdentical

WAYS = {"keep input": INPUT, "keep output": HEAD}


@pytest.mark.parametrize("way", WAYS)
def test_holds_of_an_honest_result(way: str, tmp_path: Path) -> None:
    assert Pair(way, KeptIdentical, tmp_path).holds()


@pytest.mark.parametrize("way", WAYS)
def test_fails_where_a_bit_of_what_is_left_differs(way: str, tmp_path: Path) -> None:
    pair = Pair(way, KeptIdentical, tmp_path)
    flip(pair.out, INPUT, 63)
    assert f"{INPUT} is not what {WAYS[way]} was" in pair.broken()


@pytest.mark.parametrize("way", WAYS)
def test_fails_where_the_other_table_was_kept(way: str, tmp_path: Path) -> None:
    pair = Pair(way, KeptIdentical, tmp_path)
    with_tensors(pair.source, lambda tensors: tensors.update({HEAD: tensors[INPUT], INPUT: tensors[HEAD]}))
    assert f"is not what {WAYS[way]} was" in pair.broken()


@pytest.mark.parametrize("way", WAYS)
def test_fails_where_the_dropped_table_is_still_there_or_was_never_there(way: str, tmp_path: Path) -> None:
    pair = Pair(way, KeptIdentical, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({HEAD: tensors[INPUT].clone()}))
    assert f"{HEAD} is still there" in pair.broken()
    with_tensors(pair.out, lambda tensors: tensors.update({HEAD: tensors.pop(INPUT)}))
    assert f"{INPUT} is missing" in pair.broken()
    with_tensors(pair.source, lambda tensors: tensors.pop(HEAD))
    assert f"{HEAD} is missing in the source" in pair.broken()
