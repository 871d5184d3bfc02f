"""`TieStateAsIntended`: the result, opened anew, is in the state it was to be in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.pairs import Pair
from tests.surgery.shelf import HEAD, INPUT, with_config, with_tensors
from vocabsurgeon.surgery.promises import TieStateAsIntended


@pytest.mark.parametrize("operation", ["extend", "tie", "untie"])
def test_holds_of_an_honest_result(operation: str, tmp_path: Path) -> None:
    assert Pair(operation, TieStateAsIntended, tmp_path).holds()


def test_fails_where_the_flag_differs(tmp_path: Path) -> None:
    pair = Pair("untie", TieStateAsIntended, tmp_path)
    with_config(pair.out, tie_word_embeddings=True)
    assert "tied-duplicate, not untied-equal" in pair.broken()


def test_fails_where_the_head_is_lost(tmp_path: Path) -> None:
    pair = Pair("untie", TieStateAsIntended, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.pop(HEAD))
    assert "headless" in pair.broken()


def test_fails_where_rows_are_lost(tmp_path: Path) -> None:
    pair = Pair("untie", TieStateAsIntended, tmp_path)
    with_tensors(pair.out, lambda tensors: tensors.update({key: tensors[key][:60] for key in (INPUT, HEAD)}))
    assert "60 rows, not 64" in pair.broken()
