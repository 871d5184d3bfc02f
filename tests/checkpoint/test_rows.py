"""Rows by position, against numpy's own view of the same bytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.faults.checkpoints import Stored, checkpoint, random_tensor
from vocabsurgeon.checkpoint.dtypes import TABLE
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError

NUMPY_TYPES = [dtype.name for dtype in TABLE if dtype.numpy is not None]


def _reader(folder: Path, tensor: Stored, axis: int = 0) -> TableReader:
    before, behind = random_tensor("U8", (3,), 1), random_tensor("U8", (5,), 2)
    return Checkpoint.open(checkpoint(folder, {"x": before, "t": tensor, "y": behind})).rows("t", axis)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_block_and_take_hold_the_stored_bits(tmp_path: Path, dtype: str) -> None:
    tensor = random_tensor(dtype, (7, 3))
    reader, expected = _reader(tmp_path, tensor), tensor.array()
    assert reader.shape == (7, 3)
    assert reader.block(2, 5).tobytes() == expected[2:5].tobytes()
    assert reader.take([6, 0, 6]).tobytes() == expected[[6, 0, 6]].tobytes()


@pytest.mark.parametrize(
    ("shape", "axis", "flat"), [((1, 6), 1, (6, 1)), ((2, 6, 3), 1, (6, 6)), ((2, 3, 4), 2, (4, 6))]
)
def test_another_axis_is_seen_as_rows(tmp_path: Path, shape: tuple[int, ...], axis: int, flat: tuple[int, int]) -> None:
    tensor = random_tensor("BF16", shape)
    reader, expected = _reader(tmp_path, tensor, axis), np.moveaxis(tensor.array(), axis, 0).reshape(flat)
    assert reader.shape == flat
    assert reader.block(1, 3).tobytes() == expected[1:3].tobytes()
    assert reader.take([2, 0]).tobytes() == expected[[2, 0]].tobytes()


@pytest.mark.parametrize("block_bytes", [1, 25, 10_000])
def test_blocks_cover_the_table_once(tmp_path: Path, block_bytes: int) -> None:
    tensor = random_tensor("F32", (7, 3))
    blocks = list(_reader(tmp_path, tensor).blocks(block_bytes))
    assert [start for start, _ in blocks] == list(np.cumsum([0, *(len(rows) for _, rows in blocks)])[:-1])
    assert b"".join(rows.tobytes() for _, rows in blocks) == tensor.data


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0,), (4,)])
def test_empty_and_flat_tensors_have_rows_too(tmp_path: Path, shape: tuple[int, ...]) -> None:
    tensor = random_tensor("F32", shape)
    reader = _reader(tmp_path, tensor)
    assert reader.shape == (shape[0], int(np.prod(shape[1:])))
    assert reader.block(0, shape[0]).tobytes() == tensor.data
    assert reader.take([]).shape == (0, reader.shape[1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("row", [-1, 4, 1000])
def test_row_outside_the_table_is_never_read(tmp_path: Path, row: int, axis: int) -> None:
    reader = _reader(tmp_path, random_tensor("F32", (4, 4)), axis)
    with pytest.raises(IndexError):
        reader.take([0, row])
    with pytest.raises(IndexError):
        reader.block(row, row + 1)


def test_packed_type_cannot_be_read_by_rows(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="packed dtype F4"):
        _reader(tmp_path, random_tensor("F4", (4, 4))).block(0, 1)


def test_file_cut_short_after_opening_is_an_expected_error(tmp_path: Path) -> None:
    reader = _reader(tmp_path, random_tensor("F32", (4, 4)))
    os.truncate(reader.path, reader.info.start + 20)
    with pytest.raises(CheckpointError, match="cut short"):
        reader.block(0, 4)
