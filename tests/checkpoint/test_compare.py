"""Comparison of stored bits: equality stops at the first difference, and is of bits, not of numbers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.faults.checkpoints import Stored, checkpoint, random_tensor, tensor_of
from vocabsurgeon.checkpoint import compare
from vocabsurgeon.checkpoint.compare import bytes_equal, files_equal, tables_equal
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError


def _pair(folder: Path, first: Stored, second: Stored) -> tuple[TableReader, TableReader]:
    source = Checkpoint.open(checkpoint(folder, {"a": first, "pad": random_tensor("U8", (3,)), "b": second}))
    return source.rows("a"), source.rows("b")


@pytest.mark.parametrize("position", [0, 7, 8, 19])
def test_one_changed_byte_anywhere_is_seen(tmp_path: Path, position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "BLOCK_BYTES", 8)
    data = bytes(range(20))
    (tmp_path / "a").write_bytes(b"xx" + data)
    (tmp_path / "b").write_bytes(data)
    assert bytes_equal(tmp_path / "a", 2, tmp_path / "b", 0, 20)
    (tmp_path / "b").write_bytes(data[:position] + b"?" + data[position + 1 :])
    assert not bytes_equal(tmp_path / "a", 2, tmp_path / "b", 0, 20)


def test_files_are_equal_by_content_and_length(tmp_path: Path) -> None:
    for name, content in {"a": b"12", "b": b"12", "c": b"123", "d": b"13"}.items():
        (tmp_path / name).write_bytes(content)
    os.link(tmp_path / "a", tmp_path / "linked")
    equal = {name: files_equal(tmp_path / "a", tmp_path / name) for name in ("b", "c", "d", "linked")}
    assert equal == {"b": True, "c": False, "d": False, "linked": True}


def test_comparing_beyond_the_end_is_an_expected_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    (tmp_path / "b").write_bytes(b"123")
    with pytest.raises(CheckpointError, match="cut short"):
        bytes_equal(tmp_path / "a", 0, tmp_path / "b", 0, 3)


def test_tables_are_equal_as_bits_so_a_nan_equals_itself_and_signed_zeros_differ(tmp_path: Path) -> None:
    nan = tensor_of([[np.nan, 1]])
    assert tables_equal(*_pair(tmp_path / "1", nan, nan))
    assert not tables_equal(*_pair(tmp_path / "2", tensor_of([[0.0]]), tensor_of([[-0.0]])))


@pytest.mark.parametrize("other", [("F16", (4, 2)), ("BF16", (2, 4)), ("BF16", (8,)), ("BF16", (4, 3))])
def test_tables_of_another_dtype_or_shape_are_not_equal(tmp_path: Path, other: tuple[str, tuple[int, ...]]) -> None:
    first = random_tensor("BF16", (4, 2))
    assert not tables_equal(*_pair(tmp_path, first, Stored(*other, random_tensor(*other).data)))
