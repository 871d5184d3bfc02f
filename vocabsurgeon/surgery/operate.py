"""plan → stage → prove → commit, for any plan. Knows nothing of tokens or tying; only a proved folder gets the name OUT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.fingerprint import fingerprint
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.record import write_record
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.checkpoint.writer import write
from vocabsurgeon.surgery.codec import encode
from vocabsurgeon.surgery.plan import Plan
from vocabsurgeon.surgery.prove import Proof, prove, unproved
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.vocabulary.describe import Description, describe


@dataclass(frozen=True)
class RunOptions:
    """How to run a plan. `link` hard-links untouched files; without `verify` the proof says "not checked"."""

    overwrite: bool = False
    link: bool = False
    verify: bool = True


MakeReport = Callable[[Plan, Description, Description | None, Proof, str, str], OperationReport]
"""(plan, before, after or None, proof, source, OUT) → report."""


def operate(
    description: Description,
    plan: Plan,
    out: Path | str,
    options: RunOptions = RunOptions(),
    progress: Progress = silent,
    make_report: MakeReport = OperationReport,
) -> OperationReport:
    """Carry out `plan` on the described checkpoint and write OUT.

    A broken promise leaves no OUT: the report says which, `passed` is False. The source is only read. Raises
    `OutputError` where OUT exists or cannot be written, `UsageError` where it overlaps the source.
    """
    source = description.source
    with StagedDirectory(out, overwrite=options.overwrite, source=source.root) as staged, _summing(source) as summed:
        write(source, plan.tensor_edits, plan.file_edits, staged.path, link=options.link, progress=progress)
        staged.start_flush()
        proof = prove(source, staged.path, plan.promises, progress) if options.verify else unproved(plan.promises)
        after = None if proof.passed is False else describe(Checkpoint.open(staged.path), **named_keys(plan))
        report = make_report(plan, description, after, proof, str(source.root), str(out))
        if report.passed:
            promises = [encode(promise) for promise in plan.promises]
            write_record(staged.path, report.to_dict(), summed.result(), promises=promises)
            staged.commit()
    return report


@contextmanager
def _summing(source: Checkpoint) -> Iterator[Future[dict[str, Any]]]:
    """The source's fingerprint, summed on another core while the result is written."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(fingerprint, source)


def named_keys(plan: Plan) -> dict[str, Any]:
    """The keys that the user named, as the plan's own promise about the state keeps them."""
    for promise in plan.promises:
        if hasattr(promise, "input_key") and hasattr(promise, "output_key"):
            return {"input_key": promise.input_key, "output_key": promise.output_key}
    return {}
