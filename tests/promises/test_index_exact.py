"""`IndexExact`: the index tells the true number of bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.pairs import Pair
from tests.surgery.shelf import with_json
from vocabsurgeon.surgery.promises import IndexExact
from vocabsurgeon.surgery.run import run, untying

INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize("operation", ["extend", "tie", "untie"])
def test_holds_of_an_honest_result(operation: str, tmp_path: Path) -> None:
    assert Pair(operation, IndexExact, tmp_path).holds()


@pytest.mark.parametrize("metadata", [{"total_size": 1}, {"total_size": "33408"}, {}, None, [], "x"], ids=str)
def test_fails_where_the_total_is_wrong(metadata: object, tmp_path: Path) -> None:
    pair = Pair("extend", IndexExact, tmp_path)
    with_json(pair.out / INDEX, metadata=metadata)
    assert "total_size" in pair.broken()


def test_an_index_that_is_carried_over_may_say_what_it_said(tmp_path: Path) -> None:
    """Many published indexes are a little wrong; a run that does not touch the weights does not touch them either."""
    pair = Pair("extend", IndexExact, tmp_path)
    with_json(pair.out / INDEX, metadata={"total_size": 1})
    report = run(pair.out, tmp_path / "unchanged", untying())
    assert report.to_dict()["proof"]["index_exact"] is True
    assert (tmp_path / "unchanged" / INDEX).read_bytes() == (pair.out / INDEX).read_bytes()


def test_fails_where_the_sources_index_stands_over_grown_tensors(tmp_path: Path) -> None:
    pair = Pair("extend", IndexExact, tmp_path)
    (pair.out / INDEX).write_bytes((pair.source / INDEX).read_bytes())
    assert "total_size" in pair.broken()
