"""`ValuesAsPlanned`: the norm before the head has the values of the plan."""

from __future__ import annotations

from pathlib import Path

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import tensors_of, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises import ValuesAsPlanned

NORM = "model.norm.weight"


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("keep mean", ValuesAsPlanned, tmp_path).holds()


def test_fails_where_a_bit_differs(tmp_path: Path) -> None:
    pair = Pair("keep mean", ValuesAsPlanned, tmp_path)
    flip(pair.out, NORM, 15)
    assert f"{NORM} has other values" in pair.broken()


def test_fails_where_the_old_values_were_left(tmp_path: Path) -> None:
    pair = Pair("keep mean", ValuesAsPlanned, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({NORM: tensors_of(pair.source)[NORM]}))
    assert f"{NORM} has other values" in pair.broken()


def test_fails_where_the_norm_is_missing_or_of_another_type(tmp_path: Path) -> None:
    pair = Pair("keep mean", ValuesAsPlanned, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({NORM: tensors[NORM].half()}))
    assert "not what was planned" in pair.broken()
    with_tensors(pair.out, lambda tensors: tensors.pop(NORM))
    assert f"{NORM} is missing" in pair.broken()


def test_fails_where_the_record_speaks_of_other_sizes(tmp_path: Path) -> None:
    folder = Checkpoint.open(Pair("keep mean", ValuesAsPlanned, tmp_path).out)
    assert ValuesAsPlanned(NORM, (1.0,)).check(folder, folder).passed is False
    assert ValuesAsPlanned("absent", ()).check(folder, folder).passed is False
