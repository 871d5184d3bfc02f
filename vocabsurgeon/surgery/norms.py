"""How long the new rows are beside the old ones: a row far out of the crowd is a token that always or never fires.

Measures; changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.tables import Tables

SAMPLE = 2048
"""Old rows that a percentile is taken among, evenly spaced: all of a table would cost more than the edit itself."""


UNTRAINED = 0.1
"""A row shorter than this share of the sample's median looks never trained: a heuristic, told and never acted on."""


@dataclass(frozen=True)
class TokenNorm:
    """Euclidean norms of one token's rows, and the share (0 to 100) of sampled old rows that are shorter."""

    id: int
    norm: float | None
    """None where the row holds what is not finite."""
    norm_percentile: float | None
    head_norm: float | None
    head_norm_percentile: float | None

    def to_dict(self) -> dict[str, Any]:
        """The entries added to a token's JSON."""
        values = asdict(self)
        del values["id"]
        return values


NO_NORM: Mapping[str, None] = dict.fromkeys(("norm", "norm_percentile", "head_norm", "head_norm_percentile"))
"""The entries of a token that has no row to measure."""


def token_norms(folder: Checkpoint, tables: Tables, old_rows: int, ids: Sequence[int]) -> tuple[TokenNorm, ...]:
    """Norms of the rows `ids` of every main table stored in `folder`, among its first `old_rows` rows."""
    has_all = [table for table in (tables.input, tables.output) if table and table.rows > max(ids, default=0)]
    measured = {table.role: _measure(folder.rows(table.key), min(old_rows, table.rows), ids) for table in has_all}
    first = measured.get("input") or measured.get("output")
    if first is None:  # the tokens are of the one vocabulary that is read by neither
        return ()
    head = measured.get("output") if "input" in measured else None
    return tuple(
        TokenNorm(number, *first[place], *(head[place] if head else (None, None))) for place, number in enumerate(ids)
    )


def untrained_rows(table: TableReader, ids: Sequence[int]) -> tuple[int, ...]:
    """Those of the rows `ids` that look never trained beside evenly spaced rows of `table`."""
    if not ids:
        return ()
    rows = table.shape[0]
    sample = _norms(table, range(0, rows, max(1, rows // SAMPLE)))
    finite = sample[np.isfinite(sample)]
    short = _norms(table, ids) < UNTRAINED * float(np.median(finite)) if len(finite) else [False] * len(ids)
    return tuple(number for number, is_short in zip(ids, short, strict=True) if is_short)


def zero_rows(table: TableReader, ids: Sequence[int]) -> tuple[int, ...]:
    """Those of the rows `ids` that are zero throughout: a mean leaves them out."""
    return tuple(number for number, norm in zip(ids, _norms(table, ids), strict=True) if norm == 0)


def _measure(table: TableReader, old_rows: int, ids: Sequence[int]) -> list[tuple[float | None, float | None]]:
    step = max(1, old_rows // SAMPLE)
    sample = np.sort(_norms(table, range(0, old_rows, step)))
    return [
        (float(f"{norm:.6g}"), round(100 * float(np.searchsorted(sample, norm)) / len(sample), 1))
        if np.isfinite(norm)
        else (None, None)
        for norm in _norms(table, ids)
    ]


def _norms(table: TableReader, ids: Sequence[int]) -> np.ndarray[Any, Any]:
    norms = np.zeros(len(ids))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(ids), _ROWS):
            few = slice(start, start + _ROWS)
            norms[few] = np.linalg.norm(table.take(ids[few]).astype(np.float64), axis=1)
    return norms


_ROWS = 64
"""Rows measured at a time: copies of all would take more time than the measuring, and memory."""
