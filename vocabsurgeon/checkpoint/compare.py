"""Bits of two stored tensors against each other, streamed: equality at memory speed. How far apart: `distance`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from vocabsurgeon.checkpoint.rows import TableReader, fill, open_source

BLOCK_BYTES = 256 << 10
"""Read and compared at a time: two such blocks stay in a core's own cache, and no memory is asked for anew."""


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
    if a.order or b.order:
        return rows_equal(first, second, 0, a.rows)
    return bytes_equal(first.path, a.start, second.path, b.start, a.nbytes)


def rows_equal(first: TableReader, second: TableReader, start: int, stop: int) -> bool:
    """Whether rows `start` to `stop` of two tables of one dtype and width hold the same bits."""
    width = first.shape[1] * first.info.dtype.bits // 8
    if first.info.order is None and second.info.order is None:
        places = (table.info.start + start * width for table in (first, second))
        return bytes_equal(first.path, next(places), second.path, next(places), (stop - start) * width)
    step = max(1, BLOCK_BYTES // max(1, width))
    return all(
        first.block(row, min(row + step, stop)).tobytes() == second.block(row, min(row + step, stop)).tobytes()
        for row in range(start, stop, step)
    )


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
