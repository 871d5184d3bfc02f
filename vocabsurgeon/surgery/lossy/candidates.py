"""The ways to make one table out of two different ones, each as a value, and the table that it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.evaluate import mean_blocks
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.surgery.lossy.norm import FinalNorm, final_norm
from vocabsurgeon.surgery.lossy.refit import column_factors, refitted
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.vocabulary.describe import Description

KEEPS = ("input", "output", "mean")
REFIT = "+refit"
"""What the name of a candidate ends in whose norm is refitted."""


@dataclass(frozen=True, eq=False)
class NormGain:
    """New values of one stored vector of the norm before the head: its gain, or its bias."""

    key: str
    """The stored tensor."""
    values: np.ndarray[Any, Any]
    """float32 `[D]` as the file stores them (Gemma's norms store gain - 1), each exact in the stored dtype."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to tie: which table stays, and what is written into the norm before the head."""

    name: str
    """`input`, `output`, `mean`; with a refitted norm `input+refit`, `mean+refit`."""
    keep: str
    """`input`, `output` or `mean`."""
    gain: NormGain | None = None
    bias: NormGain | None = None
    """The bias of a layer norm, which is refitted along with its gain."""

    @property
    def written(self) -> tuple[NormGain, ...]:
        """Every vector that this candidate writes beside the table: the gain, the bias, both or none."""
        return tuple(vector for vector in (self.gain, self.bias) if vector is not None)


def candidates(description: Description, request: TieRequest) -> tuple[Candidate, ...]:
    """What is to be weighed: the kept table of the request, or all three; with `refit_norm`, each that it can help too.

    Reads both tables where a norm is refitted. Raises `UsageError` where it cannot be, with the reason.
    """
    keeps = KEEPS if request.keep in (None, "auto") else (request.keep,)
    plain = tuple(Candidate(keep, keep) for keep in keeps if keep is not None)
    if not request.refit_norm:
        return plain
    norm = final_norm(description)
    return (*plain, *(_refit(description, norm, keep) for keep in keeps if keep in ("input", "mean")))


def candidate_table(description: Description, candidate: Candidate) -> np.ndarray[Any, Any]:
    """The one table `[V, D]` of the candidate in the dtype in which it would be stored. Holds a whole table."""
    first, second = pair(description)
    if candidate.keep != "mean":
        kept = first if candidate.keep == "input" else second
        return kept.block(0, kept.shape[0])
    table = np.empty(first.shape, first.dtype)
    for start, rows in mean_blocks(first, second, first.dtype):
        table[start : start + len(rows)] = rows
    return table


def pair(description: Description) -> tuple[TableReader, TableReader]:
    """Readers over the two tables that tying makes one, the input side's and the LM head; both must be stored."""
    first, second = description.tables.partner, description.tables.output
    assert first is not None and second is not None
    return description.source.rows(first.key), description.source.rows(second.key)


def _refit(description: Description, norm: FinalNorm, keep: str) -> Candidate:
    first, second = pair(description)
    factors = column_factors(first, second, mean=keep == "mean")
    gain, bias = refitted(description.source, norm, factors)
    shift = None if norm.bias is None or bias is None else NormGain(norm.bias, bias)
    return Candidate(keep + REFIT, keep, NormGain(norm.key, gain), shift)
