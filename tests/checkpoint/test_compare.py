"""Comparison of stored bits: equality stops at the first difference, and distances are numbers whatever is stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.checkpoints import Stored, checkpoint, random_tensor, tensor_of
from vocabsurgeon.checkpoint import compare
from vocabsurgeon.checkpoint.compare import Distance, bytes_equal, distance, files_equal, tables_equal
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError


def _pair(folder: Path, first: Stored, second: Stored) -> tuple[TableReader, TableReader]:
    source = Checkpoint.open(checkpoint(folder, {"a": first, "pad": random_tensor("U8", (3,)), "b": second}))
    return source.rows("a"), source.rows("b")


def _distance(folder: Path, first: Any, second: Any) -> Distance:
    return distance(*_pair(folder, tensor_of(first), tensor_of(second)))


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


def test_distance_tells_gap_angle_and_equal_rows(tmp_path: Path) -> None:
    told = _distance(tmp_path, [[1, 0], [1, 1], [0, 0], [0, 0]], [[0, 2], [1, 1], [0, 0], [3, 0]])
    assert told == Distance(3.0, (0 + 1 + 1 + 0) / 4, 2, 4)


@pytest.mark.parametrize("elements", [1, 7, 1000])
def test_distance_is_that_of_the_whole_table_in_any_blocks(
    tmp_path: Path, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_ELEMENTS", elements)
    a, b = np.random.default_rng(2).standard_normal((2, 9, 3)).astype(np.float32)
    told = _distance(tmp_path, a, b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    cosines = (wide_a * wide_b).sum(1) / np.linalg.norm(wide_a, axis=1) / np.linalg.norm(wide_b, axis=1)
    assert told.max_abs_diff == np.abs(wide_a - wide_b).max()
    assert told.mean_cosine == pytest.approx(cosines.mean(), abs=1e-12)
    assert (told.equal_rows, told.rows) == (0, 9)


def test_distance_between_two_dtypes_compares_values(tmp_path: Path) -> None:
    told = distance(*_pair(tmp_path, tensor_of([[1, 2], [3, 4]], "BF16"), tensor_of([[1, 2], [3, 4.5]], "F32")))
    assert (told.max_abs_diff, told.equal_rows) == (0.5, 0)


def test_distance_is_finite_whatever_is_stored(tmp_path: Path) -> None:
    nan, inf = np.nan, np.inf
    told = _distance(tmp_path, [[nan, 1], [inf, 1], [inf, 2], [nan, nan]], [[1, 2], [-inf, 1], [inf, 2], [nan, nan]])
    assert told == Distance(1.0, (0 + 0 + 1 + 1) / 4, 2, 4)
    for dtype in ("F64", "F32", "BF16", "F8_E4M3"):
        tensors = (random_tensor(dtype, (999, 8), seed) for seed in (1, 2))
        random = distance(*_pair(tmp_path / dtype, *tensors))
        assert np.isfinite([random.max_abs_diff, random.mean_cosine]).all()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_distance_of_empty_tables_is_none(tmp_path: Path, shape: tuple[int, int]) -> None:
    empty = random_tensor("F32", shape)
    assert distance(*_pair(tmp_path, empty, empty)) == Distance(0.0, 1.0, shape[0], shape[0])


def test_distance_of_two_shapes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        _distance(tmp_path, [[1, 2]], [[1], [2]])
