"""Bits of two stored tensors against each other, streamed: equality at memory speed, and how far apart they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.rows import BLOCK_BYTES, TableReader, fill


@dataclass(frozen=True)
class Distance:
    """How far two tables of one shape are apart. Rows are compared as bits, numbers in float64."""

    max_abs_diff: float
    """Largest |a - b| over the elements that are not NaN in both."""
    mean_cosine: float
    """Mean over rows of the cosine; a row that is zero in both counts as 1, in one as 0."""
    equal_rows: int
    rows: int


def bytes_equal(first: Path, first_offset: int, second: Path, second_offset: int, count: int) -> bool:
    """Whether `count` bytes at the two places are the same; stops at the first difference."""
    with ExitStack() as stack:
        a = stack.enter_context(open(first, "rb", buffering=0)).fileno()
        b = stack.enter_context(open(second, "rb", buffering=0)).fileno()
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
    """How far two tables of one shape are apart, in one pass over both."""
    largest, cosines, equal = 0.0, 0.0, 0
    for (start, a), (_, b) in zip(first.blocks(), second.blocks(), strict=True):
        del start
        equal += int(_same_bits(a, b).sum())
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            gap = np.abs(wide_a - wide_b)
        largest = max(largest, float(np.nanmax(gap, initial=0.0)))
        cosines += float(np.nansum(_cosines(wide_a, wide_b)))
    rows = first.shape[0]
    return Distance(largest, cosines / rows if rows else 1.0, equal, rows)


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
    same: np.ndarray[Any, Any] = (a.view(np.uint8) == b.view(np.uint8)).all(axis=1)
    return same


def _cosines(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    dots = np.einsum("ij,ij->i", a, b)
    both_zero = ~a.any(axis=1) & ~b.any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both_zero, 1.0, np.where(norms > 0, dots / np.where(norms > 0, norms, 1), 0.0))
