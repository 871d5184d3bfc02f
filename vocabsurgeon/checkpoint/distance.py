"""How far apart two stored tables are: one pass over both in small blocks, a few numbers kept of each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.evaluate import round_once
from vocabsurgeon.checkpoint.rounding import Rounding, power_below, rounding_steps
from vocabsurgeon.checkpoint.rows import TableReader

Array = np.ndarray[Any, Any]

WORST = 8
"""How many of the rows that agree least are named."""
_ELEMENTS = 1 << 17
"""Elements in work at a time: a few float32 copies of them stay in a core's own cache."""
_SPANS = 64
"""Parts that a table is split into for the cores; the sums are taken in their order, so the result is one."""
_SMALLEST = 1e-30
"""Sums of squares below this lose digits in float32; such rows, and those that overflow, are summed in float64."""


@dataclass(frozen=True)
class Distance:
    """How far two tables of one shape, `a` and `b`, are apart.

    Rows are compared as bits. Sums over a row are taken in float32 (float64 for wider types), relative error below
    1e-5, and sums over rows in float64. A row that holds what is not finite counts in no number but `equal_rows` and
    `nonfinite_rows`; of its elements, those that are finite in both enter the two absolute differences. None: no row to
    tell it from.
    """

    rows: int
    equal_rows: int
    zero_rows: int
    """Rows that are zero in either table: they have no angle."""
    nonfinite_rows: int
    """Rows that hold NaN, infinity or what is too large to square in float64, in either table."""
    max_abs_diff: float
    mean_abs_diff: float | None
    mean_cosine: float | None
    """Over the rows that have an angle: finite in both tables, zero in none."""
    low_cosine: float | None
    """The 1st percentile over the same rows."""
    worst: tuple[tuple[int, float], ...]
    """`(row, cosine)` of the rows with the least cosine, the least first; rows of equal bits are never among them."""
    relative: float | None
    """‖a - b‖ ÷ ‖a‖, both Frobenius."""
    scale: float | None
    """The number s for which ‖a·s - b‖ is least."""
    residual: float | None
    """‖a·s - b‖ ÷ ‖b‖ for that s; a difference of large sums, so right to 0.0005 at worst."""
    rounding: str | None
    """The finest element type, as torch spells it, to which rounding explains every difference; see `Rounding`."""


def distance(first: TableReader, second: TableReader) -> Distance:
    """How far two tables of one shape are apart, in one pass over both on up to four cores.

    Memory: 33 bytes a row beside a few blocks. Raises `ValueError` where shapes differ.
    """
    if first.shape != second.shape:
        raise ValueError(f"{first.info.key} {first.shape} and {second.info.key} {second.shape} cannot be compared")
    kept = _Rows(first.shape[0])
    steps = rounding_steps(first.info.dtype, second.info.dtype)
    with ThreadPoolExecutor(min(4, cpu_count() or 1)) as pool:
        parts = list(pool.map(lambda span: _compare(first, second, span, kept, steps), _spans(first.shape[0])))
    left = (step for step in steps if all(step in part.explained for part in parts))
    explained = next((step.name for step in left if step.cast is None or _is_cast(first, second, step.cast)), None)
    return _summed(kept, parts, explained)


def _is_cast(first: TableReader, second: TableReader, dtype: np.dtype[Any]) -> bool:
    """Whether one of the tables is the other, rounded to `dtype`; stops where neither can be."""
    ways = [True, True]
    step = max(1, _ELEMENTS // max(1, first.shape[1]))
    with np.errstate(all="ignore"):
        for start in range(0, first.shape[0], step):
            stop = min(start + step, first.shape[0])
            a, b = (table.block(start, stop).astype(np.float64) for table in (first, second))
            held = [bool((round_once(x, dtype).astype(np.float64) == y).all()) for x, y in ((a, b), (b, a))]
            ways = [way and holds for way, holds in zip(ways, held, strict=True)]
            if not any(ways):
                return False
    return True


class _Rows:
    """What is kept of each row: its products in float64, and whether its bits are equal."""

    def __init__(self, rows: int) -> None:
        self.products = np.zeros((4, rows))
        """‖a‖², ‖b‖², ‖a - b‖², a·b."""
        self.same = np.zeros(rows, bool)


@dataclass
class _Part:
    """What is kept of one span of rows beside `_Rows`."""

    explained: list[Rounding]
    largest: float = 0.0
    total: float = 0.0
    elements: int = 0


def _spans(rows: int) -> Iterator[range]:
    size = max(1, -(-rows // _SPANS))
    return (range(start, min(start + size, rows)) for start in range(0, rows, size))


def _compare(first: TableReader, second: TableReader, span: range, kept: _Rows, steps: Sequence[Rounding]) -> _Part:
    part, width = _Part(list(steps)), first.shape[1]
    step = max(1, _ELEMENTS // max(1, width))
    buffers = np.empty((3, min(step, len(span)), width), np.result_type(*map(_working, (first.dtype, second.dtype))))
    ones = np.ones(width, buffers.dtype)
    with np.errstate(all="ignore"):  # files hold infinities and NaNs, signaling ones too
        for start in range(span.start, span.stop, step):
            rows = slice(start, min(start + step, span.stop))
            stored = first.block(rows.start, rows.stop), second.block(rows.start, rows.stop)
            a, b, gap = buffers[:, : len(stored[0])]
            np.copyto(a, stored[0], casting="unsafe")
            np.copyto(b, stored[1], casting="unsafe")
            np.subtract(a, b, out=gap)
            products = kept.products[:, rows]
            _multiply(a, b, gap, products)
            kept.same[rows] = _same_bits(*stored, products[2])
            np.abs(gap, out=gap)
            sums = (gap @ ones).astype(np.float64)
            _redo(a, b, gap, products, sums, part)
            part.largest = max(part.largest, float(gap.max(initial=0.0)))
            part.total += float(sums.sum())
            part.elements += gap.size
            part.explained = _still(part.explained, a, b, gap, products[2][~kept.same[rows]])
    return part


def _still(kinds: list[Rounding], a: Array, b: Array, gap: Array, squares: Array) -> list[Rounding]:
    """Those of `kinds` that explain these rows too; spends `a` and `b`. `squares`: ‖a - b‖² of the unequal rows."""
    if not kinds or not np.isfinite(squares).all():
        return []
    power = power_below(a, b)
    return [kind for kind in kinds if kind.explains(power, gap)]


def _multiply(a: Array, b: Array, gap: Array, products: Array) -> None:
    for row, (left, right) in enumerate(((a, a), (b, b), (gap, gap), (a, b))):
        products[row] = np.einsum("ij,ij->i", left, right)


def _working(stored: np.dtype[Any]) -> np.dtype[Any]:
    """The type that rows are taken apart in: one that holds every stored number."""
    narrow = stored.itemsize < 4 or stored == np.float32
    return np.dtype(np.float32 if narrow else np.float64)


def _same_bits(a: Array, b: Array, gaps: Array) -> Array:
    """Which rows have equal bits; only those can that are nowhere apart, or that hold what is not finite."""
    same = np.zeros(len(a), bool)
    if a.dtype == b.dtype:
        likely = np.flatnonzero(~(gaps > 0) | ~np.isfinite(gaps))
        same[likely] = (a[likely].view(np.uint8) == b[likely].view(np.uint8)).all(axis=1)
    return same


def _redo(a: Array, b: Array, gap: Array, products: Array, sums: Array, part: _Part) -> None:
    """Take hard rows again in float64, as far as they are finite; leaves 0 in `gap` where it is not."""
    hard = np.flatnonzero(~np.isfinite(products).all(axis=0) | (products[:2] < _SMALLEST).any(axis=0))
    if not len(hard):
        return
    wide_a, wide_b = a[hard].astype(np.float64), b[hard].astype(np.float64)
    apart, again = wide_a - wide_b, np.empty((4, len(hard)))
    _multiply(wide_a, wide_b, apart, again)
    products[:, hard] = again
    finite = np.isfinite(apart)
    kept = np.abs(apart, out=apart, where=finite)
    part.elements -= int((~finite).sum())
    part.largest = max(part.largest, float(kept.max(initial=0.0, where=finite)))
    sums[hard] = kept.sum(axis=1, where=finite)
    gap[hard] = np.where(np.isfinite(gap[hard]), gap[hard], 0)


def _summed(kept: _Rows, parts: Sequence[_Part], explained: str | None) -> Distance:
    finite = np.all(np.isfinite(kept.products), axis=0)
    zero = finite & ((kept.products[0] == 0) | (kept.products[1] == 0))
    angled = np.flatnonzero(finite & ~zero)
    cosines = np.where(kept.same[angled], 1.0, _cosines(*kept.products[:, angled]))
    order = np.argsort(cosines, kind="stable")
    order = order[~kept.same[angled[order]]][:WORST]
    elements, total = sum(part.elements for part in parts), sum(part.total for part in parts)
    return Distance(
        rows=len(finite),
        equal_rows=int(kept.same.sum()),
        zero_rows=int(zero.sum()),
        nonfinite_rows=int((~finite).sum()),
        max_abs_diff=max((part.largest for part in parts), default=0.0),
        mean_abs_diff=float(total / elements) if elements and np.isfinite(total) else None,
        mean_cosine=float(cosines.mean()) if len(cosines) else None,
        low_cosine=float(np.percentile(cosines, 1)) if len(cosines) else None,
        worst=tuple((int(angled[place]), float(cosines[place])) for place in order),
        **_ratios(*kept.products[:, finite].sum(axis=1)),
        rounding=explained,
    )


def _cosines(aa: Array, bb: Array, dd: Array, ab: Array) -> Array:
    """The cosines of rows. Rows close together take theirs from their difference, which keeps the digits."""
    norms = np.sqrt(aa) * np.sqrt(bb)
    near: Array = 1 - (dd - (np.sqrt(aa) - np.sqrt(bb)) ** 2) / (2 * norms)
    return np.clip(np.where(dd < 0.1 * norms, near, ab / norms), -1.0, 1.0)


def _ratios(aa: float, bb: float, dd: float, ab: float) -> dict[str, float | None]:
    """The ratios of the whole tables; ‖a·s - b‖² = ‖a - b‖² - (1 - s)²‖a‖², since a·s is b's projection."""
    if not (0 < aa < np.inf and 0 < bb < np.inf and dd < np.inf):
        return {"relative": None, "scale": None, "residual": None}
    scale = ab / aa
    left = dd - (1 - scale) ** 2 * aa if dd < 0.1 * bb else bb - scale * ab
    ratios = {"relative": np.sqrt(dd / aa), "scale": scale, "residual": np.sqrt(max(0.0, left) / bb)}
    return {name: float(value) for name, value in ratios.items()}
