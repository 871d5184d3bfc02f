"""What has to be read and run before a lossy tie can be planned: the candidates, their cost, and who else shares."""

from __future__ import annotations

from dataclasses import dataclass

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.surgery.cost.measure import measure_cost
from vocabsurgeon.surgery.cost.probe import Probe
from vocabsurgeon.surgery.cost.result import CostTable
from vocabsurgeon.surgery.lossy.candidates import Candidate, candidates
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


def weigh(description: Description, request: TieRequest, lossy: bool, progress: Progress = silent) -> Weighed:
    """Find what else becomes one parameter, and where the tie is `lossy` measure the candidates of `request`.

    Both tables must then be stored, of one shape and plain. Raises `UsageError` for a norm that cannot be refitted and
    for a probe that cannot be read.
    """
    twins, apart = _sharing(description)
    if apart or not lossy:
        return Weighed((), None, twins, apart)
    probe = Probe.read(request.probe_file) if request.probe_file else Probe.builtin()
    found = candidates(description, request)
    return Weighed(found, measure_cost(description, found, probe, progress) if request.probe else None, twins)


def _sharing(description: Description) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What tying makes one parameter beside the pair: tables equal to the input side's, and tensors that would be lost.

    A group without the head (biases) has its own first tensor to be equal to.
    """
    source, tables = description.source, description.tables
    head = tables.output.key if tables.output else tables.output_name
    twins: list[str] = []
    apart: list[str] = []
    for group in tables.sharing.groups(tied=True):
        own = head in group
        stored = [key for key in group if key in source.tensors and key != head]
        first = tables.partner.key if own and tables.partner else next(iter(stored), None)
        for key in stored:
            if first is None or key == first:
                continue
            if not tables_equal(source.rows(first), source.rows(key)):
                apart.append(key)
            elif own:
                twins.append(key)
    return tuple(twins), tuple(apart)
