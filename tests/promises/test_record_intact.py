"""`RecordIntact`: a result is what its own record says, file by file and bit by bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.promises.pairs import Pair
from vocabsurgeon.checkpoint.record import RECORD, check_record
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.promises import RecordIntact
from vocabsurgeon.surgery.run import untie


def _pair(tmp_path: Path) -> Pair:
    pair = Pair("extend", RecordIntact, tmp_path)
    pair.promises = [RecordIntact()]
    return pair


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert _pair(tmp_path).holds()


def _flipped(path: Path, place: int, bit: int = 1) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= bit
    path.write_bytes(raw)


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of the weights": (lambda out: _flipped(next(out.glob("*.safetensors")), -1), "changed"),
    "a file gone": (lambda out: (out / "tokenizer_config.json").unlink(), "tokenizer_config.json is gone"),
    "a file more": (lambda out: (out / "notes.txt").write_text(""), "notes.txt appeared"),
    "a folder more": (lambda out: ((out / "deep").mkdir(), (out / "deep/x").write_text("")), "deep/x appeared"),
    "the record's own text": (lambda out: _flipped(out / RECORD, 5), "changed"),
}


@pytest.mark.parametrize(("change", "told"), BREAKS.values(), ids=list(BREAKS))
def test_fails_where_anything_changed_since(change: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    change(pair.out)
    assert told in "; ".join(check_record(pair.out).problems)


def test_every_flip_of_every_bit_of_the_record_is_found(tmp_path: Path) -> None:
    """All of its bytes, one bit each; the files that it speaks of are summed once for all."""
    path = _pair(tmp_path).out / RECORD
    for name in json.loads(path.read_text())["contents"]:
        (path.parent / name).unlink()
    alone = check_record(path.parent).problems
    raw = path.read_bytes()
    for place in range(len(raw)):
        _flipped(path, place, 1 << (place % 8))
        assert (set(check_record(path.parent).problems) - set(alone)) or check_record(path.parent).passed is None, place
        path.write_bytes(raw)


def test_linked_shards_are_told_as_compared_in_samples_alone(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    untie(pair.out, tmp_path / "linked", RunOptions(link=True))
    found = check_record(tmp_path / "linked")
    assert found.passed is None and "only samples" in found.unchecked[0]


@pytest.mark.parametrize("name", [".cache", "__pycache__", ".git", "deep/.git"])
def test_book_keeping_that_appeared_is_named_and_not_passed(name: str, tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    (pair.out / name).mkdir(parents=True)
    (pair.out / name / "x").write_text("")
    found = check_record(pair.out)
    assert found.passed is None and f"{name}/ appeared" in "; ".join(found.unchecked)


def test_without_a_record_nothing_is_claimed(tmp_path: Path) -> None:
    assert check_record(tmp_path).passed is None
    (tmp_path / RECORD).write_text("{}")
    assert check_record(tmp_path).passed is None
