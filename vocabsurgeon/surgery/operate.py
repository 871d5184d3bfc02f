"""plan → stage → prove → commit, for any plan. Knows nothing of tokens or tying; only a proved folder becomes OUT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from vocabsurgeon.checkpoint.fingerprint import checksums, source_sums, summed_up
from vocabsurgeon.checkpoint.layout import lay_out
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.record import write_record
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.checkpoint.writer import write
from vocabsurgeon.surgery.codec import encode
from vocabsurgeon.surgery.plan import Plan
from vocabsurgeon.surgery.promises import TieStateAsIntended
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
    linked = linked_shards(source, plan) if options.link else frozenset()
    with (
        StagedDirectory(out, overwrite=options.overwrite, source=source.root) as staged,
        _summing(source, linked, _copied(source, plan, options) - linked) as sums,
    ):
        edits = plan.tensor_edits, plan.file_edits
        write(source, *edits, staged.path, link=options.link, progress=progress, finished=sums.of_file(staged.path))
        staged.start_flush()
        proof = prove(source, staged.path, plan.promises, progress) if options.verify else unproved(plan.promises)
        opened = None if proof.passed is False else proof.after or Checkpoint.open(staged.path)
        after = describe(opened, **named_keys(plan)) if opened else None
        report = make_report(plan, description, after, proof, str(source.root), str(out))
        if report.passed:
            promises = [encode(promise) for promise in plan.promises]
            write_record(staged.path, report.to_dict(), sums.fingerprint, sums.result, promises=promises)
            staged.commit()
    return report


def linked_shards(source: Checkpoint, plan: Plan) -> frozenset[str]:
    """The weight files of the source that no edit touches: with `link` they are linked, not written."""
    layouts = lay_out(source.shards, plan.tensor_edits, new_shard=True, convert=plan.changed)
    return frozenset(layout.copy_of for layout in layouts if layout.copy_of is not None)


class _Sums:
    """The sums that go into the record, made beside writing and proving: the source's, and each file's of the result
    from when it is written."""

    def __init__(
        self, pool: ThreadPoolExecutor, source: Checkpoint, linked: frozenset[str], copied: frozenset[str], stop: Event
    ) -> None:
        self._pool, self._linked, self._stop = pool, linked, stop
        self._source, self._copied = source, copied
        rest = [name for name in source.files if name not in copied]
        self._rest = pool.submit(source_sums, source, rest, linked, stop.is_set)
        self._result: list[Future[dict[str, dict[str, Any]]]] = []

    def of_file(self, folder: Path) -> Callable[[str], None]:
        """What begins with a file below `folder`, the result's, once it is written."""

        def finished(name: str) -> None:
            self._result.append(self._pool.submit(checksums, folder, [name], self._linked, self._stop.is_set))

        return finished

    @property
    def result(self) -> dict[str, dict[str, Any]]:
        """The entries of the files that were written, by name."""
        entries = [entry for done in self._result for entry in done.result().items()]
        return dict(sorted(entries))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The source's. A file that the result holds byte for byte, as was proved, has the sum of the result's."""
        rest, result = self._rest.result(), self.result
        return summed_up({name: result[name] if name in self._copied else rest[name] for name in self._source.files})


def _copied(source: Checkpoint, plan: Plan, options: RunOptions) -> frozenset[str]:
    """The files that the result is proved to hold byte for byte: those need not be summed twice."""
    if not options.verify:
        return frozenset()
    layouts = lay_out(source.shards, plan.tensor_edits, new_shard=options.link, convert=plan.changed)
    weights = {layout.name for layout in layouts if layout.copy_of == layout.name}
    carried = {entry.file for entry in plan.files if entry.fate in ("kept", "stale") and source.has(entry.file)}
    return frozenset(weights | carried - set(source.shards.files))


@contextmanager
def _summing(source: Checkpoint, linked: frozenset[str], copied: frozenset[str]) -> Iterator[_Sums]:
    """Sums in the background, given up when the block ends."""
    stop = Event()
    with ThreadPoolExecutor(2) as pool:  # hashing needs no interpreter
        try:
            yield _Sums(pool, source, linked, copied, stop)
        finally:
            stop.set()


def named_keys(plan: Plan) -> dict[str, Any]:
    """What `describe` must be told of the result, as the plan's own promise about the state keeps it."""
    for promise in plan.promises:
        if isinstance(promise, TieStateAsIntended):
            keys = {"input_key": promise.input_key, "output_key": promise.output_key}
            return {**keys, "observed": promise.observed}
    return {}
