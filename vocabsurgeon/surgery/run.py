"""The operations as one call each: open → describe → plan → operate. What the command line and library users call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.surgery.extend import ExtendRequest, plan_extend
from vocabsurgeon.surgery.extend_plan import extend_report
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.lossy.weigh import weigh
from vocabsurgeon.surgery.operate import MakeReport, RunOptions, operate
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.tie import is_lossy, plan_tie
from vocabsurgeon.surgery.untie import plan_untie
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.tie_state import TieState


@dataclass(frozen=True)
class Operation:
    """A request that only needs a checkpoint: how to plan it, and how to report it."""

    plan: Callable[[Description, Progress], Plan | Refusal]
    """What has to be measured for the plan is measured here; the plan itself is made of values."""
    make_report: MakeReport = OperationReport
    compare: bool = False
    """Whether the plan wants to know how far apart two different tables are."""
    slow: Callable[[Description], bool] = lambda _: False
    """Whether planning runs the model: OUT is then looked at first."""


def tying(request: TieRequest = TieRequest()) -> Operation:
    """`tie`: one table for both roles, where that loses nothing or no more than `request` allows."""

    def plan(description: Description, progress: Progress) -> Plan | Refusal:
        weighed = weigh(description, request, is_lossy(description), progress)
        return plan_tie(description, request, weighed)

    return Operation(plan, compare=True, slow=lambda description: request.probe and is_lossy(description))


def untying() -> Operation:
    """`untie`: two stored tables."""
    return Operation(lambda description, _: plan_untie(description))


def extending(request: ExtendRequest) -> Operation:
    """`extend`: new tokens with ids and rows."""
    return Operation(lambda description, _: plan_extend(description, request), extend_report)


def plan_for(
    checkpoint: Path | str,
    operation: Operation,
    input_key: str | None = None,
    output_key: str | None = None,
    progress: Progress = silent,
    trust_remote_code: bool = False,
) -> tuple[Description, Plan | Refusal]:
    """The described checkpoint and what `operation` would do to it. Writes nothing."""
    description = _described(checkpoint, operation, input_key, output_key, trust_remote_code)
    return description, operation.plan(description, progress)


def run(
    checkpoint: Path | str,
    out: Path | str,
    operation: Operation,
    options: RunOptions = RunOptions(),
    progress: Progress = silent,
    *,
    input_key: str | None = None,
    output_key: str | None = None,
    trust_remote_code: bool = False,
) -> OperationReport | Refusal:
    """Carry out `operation` on the checkpoint and write OUT, or return why not.

    OUT appears complete and proved or not at all; the source is only read. Raises `VocabsurgeonError` for input that
    cannot be worked on and for an OUT that cannot be written.
    """
    description = _described(checkpoint, operation, input_key, output_key, trust_remote_code)
    if operation.slow(description):
        StagedDirectory(out, overwrite=options.overwrite, source=description.source.root)  # refuses what cannot be OUT
    plan = operation.plan(description, progress)
    if isinstance(plan, Refusal):
        return plan
    return operate(description, plan, out, options, progress, operation.make_report)


def _described(
    checkpoint: Path | str, operation: Operation, input_key: str | None, output_key: str | None, trust_remote_code: bool
) -> Description:
    """A conflict is compared to the end whatever is done about it: how far apart the tables are says what happened."""
    source = Checkpoint.open(checkpoint)
    keys = {"input_key": input_key, "output_key": output_key}
    found = describe(source, compare=operation.compare, trust_remote_code=trust_remote_code, **keys)  # type: ignore[arg-type]
    if found.tie.state is TieState.CONFLICT and not operation.compare:
        found = describe(source, compare=True, trust_remote_code=trust_remote_code, **keys)  # type: ignore[arg-type]
    return found


def tie(
    checkpoint: Path | str, out: Path | str, options: RunOptions = RunOptions(), request: TieRequest = TieRequest()
) -> OperationReport | Refusal:
    """Write `checkpoint` with one table for input embedding and LM head; see `plan_tie`.

    Two different tables are first weighed on the model itself (torch and transformers are imported then), unless
    `request` says not to.
    """
    return run(checkpoint, out, tying(request), options)


def untie(checkpoint: Path | str, out: Path | str, options: RunOptions = RunOptions()) -> OperationReport | Refusal:
    """Write `checkpoint` with two stored tables; see `plan_untie`."""
    return run(checkpoint, out, untying(), options)


def extend(
    checkpoint: Path | str, out: Path | str, request: ExtendRequest, options: RunOptions = RunOptions()
) -> OperationReport | Refusal:
    """Write `checkpoint` with new tokens; see `plan_extend`. The report is an `ExtendReport`."""
    return run(checkpoint, out, extending(request), options)
