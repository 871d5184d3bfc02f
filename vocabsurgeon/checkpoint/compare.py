"""Bits of two stored tensors against each other, streamed: equality at memory speed, and how far apart they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.rows import TableReader, fill, open_source

BLOCK_BYTES = 256 << 10
"""Read and compared at a time: two such blocks stay in a core's own cache, and no memory is asked for anew."""


@dataclass(frozen=True)
class Distance:
    """How far two tables of one shape are apart. Rows are compared as bits, numbers in float64."""

    max_abs_diff: float
    """Largest |a - b| over the elements that are finite in both; 0 where there is none."""
    mean_cosine: float
    """Mean over rows of the cosine. Rows of the same bits count as 1; a row that is zero in one table only, or that
    holds what is not finite, as 0."""
    equal_rows: int
    rows: int


def bytes_equal(first: Path, first_offset: int, second: Path, second_offset: int, count: int) -> bool:
    """Whether `count` bytes at the two places are the same; stops at the first difference.

    One place in one file (a hard link) is equal to itself without being read.
    """
    with ExitStack() as stack:
        a = stack.enter_context(open_source(first)).fileno()
        b = stack.enter_context(open_source(second)).fileno()
        if first_offset == second_offset and os.path.sameopenfile(a, b):
            return True
        return all(left == right for left, right in _pairs(a, first_offset, b, second_offset, count, first, second))


def files_equal(first: Path, second: Path) -> bool:
    """Whether two files hold the same bytes."""
    size = os.stat(first).st_size
    return size == os.stat(second).st_size and bytes_equal(first, 0, second, 0, size)


def tables_equal(first: TableReader, second: TableReader) -> bool:
    """Whether two tensors have one dtype, one shape and the same bits (a NaN equals the same NaN)."""
    a, b = first.info, second.info
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return bytes_equal(first.path, a.start, second.path, b.start, a.nbytes)


def distance(first: TableReader, second: TableReader) -> Distance:
    """How far two tables of one shape are apart, in one pass over both. Raises `ValueError` where shapes differ."""
    if first.shape != second.shape:
        raise ValueError(f"{first.info.key} {first.shape} and {second.info.key} {second.shape} cannot be compared")
    rows, width = first.shape
    step = max(1, _ELEMENTS // max(1, width))
    largest, cosines, equal = 0.0, 0.0, 0
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        a, b = first.block(start, stop), second.block(start, stop)
        same = _same_bits(a, b)
        equal += int(same.sum())
        with np.errstate(all="ignore"):  # files hold infinities and NaNs, signaling ones too
            wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
            largest = max(largest, _largest_gap(wide_a, wide_b))
            cosines += float(np.where(same, 1.0, _cosines(wide_a, wide_b)).sum())
    return Distance(largest, cosines / rows if rows else 1.0, equal, rows)


_ELEMENTS = 1 << 19
"""Elements in work at a time: 4 MB as float64, of which a few copies are held."""


def _pairs(
    a: int, a_offset: int, b: int, b_offset: int, count: int, first: Path, second: Path
) -> Iterator[tuple[bytearray, bytearray]]:
    done, left, right = 0, bytearray(min(BLOCK_BYTES, count)), bytearray(min(BLOCK_BYTES, count))
    while done < count:
        if count - done < len(left):
            left, right = bytearray(count - done), bytearray(count - done)
        fill(a, a_offset + done, memoryview(left), first)
        fill(b, b_offset + done, memoryview(right), second)
        yield left, right
        done += len(left)


def _same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if a.dtype != b.dtype:
        return np.zeros(len(a), bool)
    if not a.size:
        return np.ones(len(a), bool)
    same: np.ndarray[Any, Any] = (a.view(np.uint8) == b.view(np.uint8)).all(axis=1)
    return same


def _largest_gap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    gap = np.abs(a - b)
    return float(np.max(gap, initial=0.0, where=np.isfinite(gap)))


def _cosines(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cosine of each pair of rows; 1 where both are zero, 0 where one is or where it is not a finite number."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = np.einsum("ij,ij->i", a, b) / norms
    both_zero = ~a.any(axis=1) & ~b.any(axis=1)
    return np.where(both_zero, 1.0, np.where(np.isfinite(cosines), cosines, 0.0))
