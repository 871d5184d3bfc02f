"""The gain that best maps the kept table onto the lost head: least squares per column, in closed form.

Logits see `gain ⊙ table` alone, so a column of the table that is off by a factor is set right in the norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.evaluate import mean_blocks, round_once
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.lossy.norm import FinalNorm

_ELEMENTS = 1 << 18


def column_factors(kept: TableReader, head: TableReader, *, mean: bool = False) -> np.ndarray[Any, Any]:
    """`[D]` float64: for each column j the c that minimizes Σᵥ (c·Kᵥⱼ - Wᵥⱼ)², which is (Kⱼ·Wⱼ)/(Kⱼ·Kⱼ).

    K is the kept table, or with `mean` the stored mean of both. A column of zeros gets 1: nothing can be fitted there.
    Raises `UsageError` where a table holds what is not finite.
    """
    width = head.shape[1]
    onto, square = np.zeros(width), np.zeros(width)
    for start, rows in mean_blocks(kept, head, kept.dtype) if mean else kept.blocks(_ELEMENTS * kept.dtype.itemsize):
        with np.errstate(all="ignore"):
            table = rows.astype(np.float64)
            onto += (table * head.block(start, start + len(rows)).astype(np.float64)).sum(axis=0)
            square += (table * table).sum(axis=0)
    if not (np.isfinite(onto).all() and np.isfinite(square).all()):
        raise UsageError("cannot be fitted: a table holds what is not finite", where="--refit-norm")
    return np.divide(onto, square, out=np.ones(width), where=square > 0)


def refitted(
    source: Checkpoint, norm: FinalNorm, factors: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Gain and bias of the norm for hidden states times `factors`, as stored: float32 `[D]`, exact in their dtypes."""
    gain = _values(source, norm.key)
    scaled = (gain + norm.offset) * factors - norm.offset
    bias = None if norm.bias is None else _values(source, norm.bias) * factors
    return _stored(source, norm.key, scaled), None if norm.bias is None else _stored(source, norm.bias, bias)


def _values(source: Checkpoint, key: str) -> np.ndarray[Any, Any]:
    table = source.rows(key)
    return table.block(0, table.shape[0])[:, 0].astype(np.float64)


def _stored(source: Checkpoint, key: str, values: Any) -> np.ndarray[Any, Any]:
    rounded = round_once(values, source.rows(key).dtype).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise UsageError("cannot be fitted: its dtype is too narrow for the new values", where=key)
    return rounded
