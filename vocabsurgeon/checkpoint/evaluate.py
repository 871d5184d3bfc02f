"""Row expressions → rows, from the source table alone. Knows no tokens; the arithmetic of every initializer is here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, Normal, RowExpression, Zeros
from vocabsurgeon.checkpoint.rows import TableReader


class RowEvaluator:
    """Evaluates row expressions against one stored table; a mean over many rows is computed once and remembered."""

    def __init__(self, table: TableReader) -> None:
        self.table = table
        self._means: dict[tuple[tuple[int, int], ...], np.ndarray[Any, Any]] = {}

    def row(self, expression: RowExpression, number: int) -> np.ndarray[Any, Any]:
        """The row `[width]` in the stored dtype for position `number` of the result; NaNs go through quietly."""
        with np.errstate(all="ignore"):  # numpy warns where a file holds a signaling NaN
            return self._row(expression, number)

    def _row(self, expression: RowExpression, number: int) -> np.ndarray[Any, Any]:
        width = self.table.shape[1]
        if isinstance(expression, CopyOf):
            row: np.ndarray[Any, Any] = self.table.take([expression.id])[0]
            return row
        if isinstance(expression, Zeros):
            return np.zeros(width, self.table.dtype)
        if isinstance(expression, Normal):
            generator = np.random.Generator(np.random.PCG64([expression.seed, number]))
            return round_once(generator.standard_normal(width) * expression.std, self.table.dtype)
        return round_once(self._mean(expression), self.table.dtype)

    def _mean(self, expression: MeanOf) -> np.ndarray[Any, Any]:
        rows = self.table.take(expression.ids).astype(np.float64)
        kept = rows[~self._dropped(rows)]
        return kept.mean(axis=0) if len(kept) else self._mean_of_ranges(expression.otherwise)

    def _mean_of_ranges(self, ranges: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
        if ranges not in self._means:
            self._means[ranges] = self._stream_mean(ranges)
        return self._means[ranges]

    def _stream_mean(self, ranges: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
        width = self.table.shape[1]
        total, count = np.zeros(width, np.float64), 0
        for start, block in self.table.blocks(_MEAN_BYTES):
            named = _only(block, _mask(start, len(block), ranges))
            rows = named if named.dtype.itemsize >= 4 else named.astype(np.float32)
            kept = _only(rows, ~self._dropped(rows))
            total += kept.sum(axis=0, dtype=np.float64)
            count += len(kept)
        return total / count if count else total

    def _dropped(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which rows never held a vector. A vector's element (a bias entry) may well be zero and counts."""
        if self.table.shape[1] == 1:
            return np.zeros(len(rows), bool)
        empty: np.ndarray[Any, Any] = np.logical_not(rows.any(axis=1))
        return empty


def mean_blocks(
    first: TableReader, second: TableReader, dtype: np.dtype[Any]
) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """`(first row, rows)` of the mean of two tables of one shape, in `dtype`, a bounded block at a time.

    Element by element in float64, rounded once. Halved before they are added: two large numbers have a mean even where
    their sum is none. NaNs go through quietly.
    """
    rows, width = first.shape
    step = max(1, _MEAN_ELEMENTS // max(1, width))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        with np.errstate(all="ignore"):
            halves = (table.block(start, stop).astype(np.float64) * 0.5 for table in (first, second))
            yield start, round_once(next(halves) + next(halves), dtype)


def scaled_blocks(table: TableReader, factor: float) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """`(first row, rows)` of the table times `factor`, in its dtype: in float64, rounded once, a block at a time."""
    rows, width = table.shape
    step = max(1, _MEAN_ELEMENTS // max(1, width))
    for start in range(0, rows, step):
        with np.errstate(all="ignore"):
            yield (
                start,
                round_once(table.block(start, min(start + step, rows)).astype(np.float64) * factor, table.dtype),
            )


_MEAN_ELEMENTS = 1 << 16
"""Elements averaged at a time: half a megabyte as float64, of which a few copies are held."""


def round_once(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """float64 → `dtype`, rounded to nearest even in one step.

    ml_dtypes goes through float32, which would round twice; forcing the float32 to odd first makes the second
    rounding see every discarded bit (Boldo and Melquiond, 2008). What is too large becomes what the dtype has for it
    (infinity, or NaN). Integers are rounded to nearest even too.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype.kind in "iu":
            whole: np.ndarray[Any, Any] = np.rint(values)
            return whole.astype(dtype)
        if dtype.itemsize >= 4 or dtype == np.float16:
            return values.astype(dtype)
        return _to_odd(values).astype(dtype)


def _to_odd(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float64 → float32, with the last bit set wherever something was cut off."""
    narrow = values.astype(np.float32)
    inexact = narrow.astype(np.float64) != values
    away = np.abs(narrow.astype(np.float64)) > np.abs(values)
    bits = narrow.view(np.uint32)
    truncated = np.where(away & inexact, bits - 1, bits)
    odd = np.where(inexact, truncated | np.uint32(1), truncated).astype(np.uint32)
    return odd.view(np.float32)


_MEAN_BYTES = 1 << 18
"""Rows summed at a time: so few that their float32 copies stay in a core's own cache."""


def _only(rows: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The wanted rows; not copied where that is all of them."""
    return rows if wanted.all() else rows[wanted]


def _mask(start: int, length: int, ranges: tuple[tuple[int, int], ...]) -> np.ndarray[Any, Any]:
    wanted = np.zeros(length, bool)
    for low, high in ranges:
        wanted[max(low - start, 0) : max(high - start, 0)] = True
    return wanted
