"""`MeanAsPlanned`: the one table is the mean of two different ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.promises.pairs import Pair, flip
from tests.surgery.shelf import HEAD, INPUT, taken, tensors_of, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises import MeanAsPlanned


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("keep mean", MeanAsPlanned, tmp_path).holds()


def test_fails_where_a_bit_of_the_mean_differs(tmp_path: Path) -> None:
    pair = Pair("keep mean", MeanAsPlanned, tmp_path)
    flip(pair.out, INPUT, 63)
    assert f"{INPUT}: a row from 0 to 63 is not the mean" in pair.broken()


def test_fails_where_one_of_the_two_was_kept_instead(tmp_path: Path) -> None:
    pair = Pair("keep mean", MeanAsPlanned, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({INPUT: tensors_of(pair.source)[INPUT]}))
    assert "is not the mean" in pair.broken()


def test_fails_where_the_result_has_another_shape_or_type(tmp_path: Path) -> None:
    pair = Pair("keep mean", MeanAsPlanned, tmp_path)
    whole = tensors_of(pair.out)[INPUT]
    for other in (whole[:60], whole.half()):
        with_tensors(pair.out, lambda tensors, other=other: tensors.update({INPUT: other}))  # type: ignore[misc]
        assert "no mean of the two" in pair.broken()


def test_fails_where_the_head_is_still_there(tmp_path: Path) -> None:
    pair = Pair("keep mean", MeanAsPlanned, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({HEAD: tensors[INPUT].clone()}))
    assert f"{HEAD} is still there" in pair.broken()


@pytest.mark.parametrize("tensor", [torch.tensor(1.0), torch.ones(3, dtype=torch.int32)], ids=["number", "integers"])
def test_fails_where_the_record_speaks_of_what_has_no_mean(tensor: torch.Tensor, tmp_path: Path) -> None:
    source = with_tensors(
        taken(tmp_path / "source"), lambda tensors: tensors.update({"a": tensor, "b": tensor.clone()})
    )
    out = with_tensors(taken(tmp_path / "out"), lambda tensors: tensors.update({"a": tensor}))
    assert MeanAsPlanned("a", "b").check(Checkpoint.open(source), Checkpoint.open(out)).passed is False
