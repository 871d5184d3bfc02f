"""`UntouchedTensorsIdentical`: whatever was not edited keeps name, dtype, shape and bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.promises.pairs import Pair
from tests.surgery.shelf import INPUT, Tensors, with_tensors
from vocabsurgeon.surgery.promises import UntouchedTensorsIdentical

NORM = "model.norm.weight"


@pytest.mark.parametrize("operation", ["extend", "tie", "untie"])
def test_holds_of_an_honest_result(operation: str, tmp_path: Path) -> None:
    assert Pair(operation, UntouchedTensorsIdentical, tmp_path).holds()


BREAKS: dict[str, Callable[[Tensors], object]] = {
    "a bit": lambda tensors: tensors[NORM].view(torch.int32)[3:4].bitwise_xor_(1),
    "a dtype": lambda tensors: tensors.update({NORM: tensors[NORM].view(torch.int32)}),
    "a shape": lambda tensors: tensors.update({NORM: tensors[NORM][None]}),
    "a tensor lost": lambda tensors: tensors.pop(NORM),
    "a tensor more": lambda tensors: tensors.update(more=tensors[NORM].clone()),
    "the table": lambda tensors: tensors[INPUT].neg_(),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=list(BREAKS))
def test_fails_where_anything_else_differs(change: Callable[[Tensors], object], tmp_path: Path) -> None:
    pair = Pair("untie", UntouchedTensorsIdentical, tmp_path)
    with_tensors(pair.out, change)
    assert any(key in pair.broken() for key in (NORM, INPUT, "more"))


def test_fails_where_the_copy_is_not_there(tmp_path: Path) -> None:
    pair = Pair("untie", UntouchedTensorsIdentical, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.pop("lm_head.weight"))
    assert "lm_head.weight is missing" in pair.broken()
