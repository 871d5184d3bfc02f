"""The operations as one call each: open → describe → plan → operate. What the command line and library users call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.extend import ExtendRequest, plan_extend
from vocabsurgeon.surgery.extend_plan import extend_report
from vocabsurgeon.surgery.operate import MakeReport, RunOptions, operate
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.tie import plan_tie
from vocabsurgeon.surgery.untie import plan_untie
from vocabsurgeon.vocabulary.describe import Description, describe


@dataclass(frozen=True)
class Operation:
    """A request that only needs a checkpoint: how to plan it, and how to report it."""

    plan: Callable[[Description], Plan | Refusal]
    make_report: MakeReport = OperationReport
    compare: bool = False
    """Whether the plan wants to know how far apart two different tables are."""


def tying() -> Operation:
    """`tie`: one table for both roles, where that loses nothing."""
    return Operation(plan_tie, compare=True)


def untying() -> Operation:
    """`untie`: two stored tables."""
    return Operation(plan_untie)


def extending(request: ExtendRequest) -> Operation:
    """`extend`: new tokens with ids and rows."""
    return Operation(lambda description: plan_extend(description, request), extend_report)


def plan_for(
    checkpoint: Path | str, operation: Operation, input_key: str | None = None, output_key: str | None = None
) -> tuple[Description, Plan | Refusal]:
    """The described checkpoint and what `operation` would do to it. Writes nothing."""
    source = Checkpoint.open(checkpoint)
    description = describe(source, compare=operation.compare, input_key=input_key, output_key=output_key)
    return description, operation.plan(description)


def run(
    checkpoint: Path | str,
    out: Path | str,
    operation: Operation,
    options: RunOptions = RunOptions(),
    progress: Progress = silent,
    *,
    input_key: str | None = None,
    output_key: str | None = None,
) -> OperationReport | Refusal:
    """Carry out `operation` on the checkpoint and write OUT, or return why not.

    OUT appears complete and proved or not at all; the source is only read. Raises `VocabsurgeonError` for input that
    cannot be worked on and for an OUT that cannot be written.
    """
    description, plan = plan_for(checkpoint, operation, input_key, output_key)
    if isinstance(plan, Refusal):
        return plan
    return operate(description, plan, out, options, progress, operation.make_report)


def tie(checkpoint: Path | str, out: Path | str, options: RunOptions = RunOptions()) -> OperationReport | Refusal:
    """Write `checkpoint` with one table for input embedding and LM head; see `plan_tie`."""
    return run(checkpoint, out, tying(), options)


def untie(checkpoint: Path | str, out: Path | str, options: RunOptions = RunOptions()) -> OperationReport | Refusal:
    """Write `checkpoint` with two stored tables; see `plan_untie`."""
    return run(checkpoint, out, untying(), options)


def extend(
    checkpoint: Path | str, out: Path | str, request: ExtendRequest, options: RunOptions = RunOptions()
) -> OperationReport | Refusal:
    """Write `checkpoint` with new tokens; see `plan_extend`. The report is an `ExtendReport`."""
    return run(checkpoint, out, extending(request), options)
