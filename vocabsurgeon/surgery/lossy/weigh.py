"""What has to be read and run before a lossy tie can be planned: the candidates, their cost, and who else shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.evaluate import mean_blocks
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.cost.measure import measure_cost
from vocabsurgeon.surgery.cost.probe import Probe
from vocabsurgeon.surgery.cost.result import CostTable
from vocabsurgeon.surgery.lossy.candidates import Candidate, candidates, pair
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.vocabulary.describe import Description


@dataclass(frozen=True)
class Weighed:
    """The ways to tie two different tables, and what is known of each."""

    candidates: tuple[Candidate, ...]
    cost: CostTable | None
    """None where measuring was not wanted."""
    twins: tuple[str, ...] = ()
    """Further stored tables that hold the bits of the input side's and become the same parameter."""
    apart: tuple[str, ...] = ()
    """Further stored tensors that would become one parameter with another and hold something else."""
    idle: tuple[str, ...] = ()
    """Stored biases that the untied class does not read, where they differ from the head's own: they go."""


def weigh(description: Description, request: TieRequest, lossy: bool, progress: Progress = silent) -> Weighed:
    """Find what else becomes one parameter, and where the tie is `lossy` measure the candidates of `request`.

    Both tables must then be stored, of one shape and plain. Raises `UsageError` for a norm that cannot be refitted and
    for a probe that cannot be read.
    """
    twins, apart, idle = _sharing(description)
    if apart or not lossy:
        return Weighed((), None, twins, apart, idle)
    probe = Probe.read(request.probe_file) if request.probe_file else Probe.builtin()
    found = candidates(description, request)
    if not _mean_fits(description):
        if request.keep == "mean":
            raise UsageError(_TOO_NARROW, where="--keep mean", hint="name another table: --keep input|output")
        found = tuple(candidate for candidate in found if candidate.keep != "mean")
    cost = measure_cost(description, found, probe, progress) if request.probe else None
    return Weighed(found, cost, twins, idle=idle)


_TOO_NARROW = "does not fit the type of the input embedding: finite numbers would become infinite"


def _mean_fits(description: Description) -> bool:
    """Whether the mean of two tables of different types is finite in the kept one's where both tables are."""
    first, second = pair(description)

    def finite(rows: np.ndarray[Any, Any]) -> bool:
        return bool(np.isfinite(rows.astype(np.float64)).all())

    return first.dtype == second.dtype or all(
        finite(rows) or not all(finite(table.block(start, start + len(rows))) for table in (first, second))
        for start, rows in mean_blocks(first, second, first.dtype)
    )


def _sharing(description: Description) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What tying makes one parameter beside the pair: tables equal to the input side's, and tensors that would be lost.

    A group without the head (biases) has its own first tensor to be equal to; of two that differ, the head's own bias
    is the one that the untied class reads.
    """
    source, tables = description.source, description.tables
    head = tables.output.key if tables.output else tables.output_name
    twins: list[str] = []
    apart: list[str] = []
    idle: list[str] = []
    own_bias = f"{head.removesuffix('.weight')}.bias" if head else ""
    for group in tables.sharing.groups(tied=True):
        own = head in group
        stored = [key for key in group if key in source.tensors and key != head]
        first = tables.partner.key if own and tables.partner else next(iter(stored), None)
        for key in stored:
            if first is None or key == first:
                continue
            if not tables_equal(source.rows(first), source.rows(key)):
                (idle if own_bias in stored else apart).append(key if key != own_bias else first)
            elif own:
                twins.append(key)
    return tuple(twins), tuple(apart), tuple(idle)
