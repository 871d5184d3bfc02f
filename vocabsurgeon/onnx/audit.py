"""`audit`: what an ONNX export of any exporter, or a checkpoint, stores against what it needs. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.byte_counts import ByteCounts, orphaned_bytes, referenced_bytes
from vocabsurgeon.onnx.duplicates import Duplicate, find_duplicates, unique_bytes
from vocabsurgeon.onnx.expected import Expected, expected_bytes, export_element
from vocabsurgeon.onnx.files import OnnxFile
from vocabsurgeon.onnx.parity.report import ParityReport
from vocabsurgeon.onnx.runtime.measure import measure_runtime, why_not_measured
from vocabsurgeon.onnx.runtime.report import RuntimeReport
from vocabsurgeon.onnx.stored import Stored, open_stored
from vocabsurgeon.onnx.summary import summary
from vocabsurgeon.onnx.twins import find_twins

SCHEMA = "vocabsurgeon.audit/1"
MAX_RATIO = 1.01
WHY_WIDE = "the model's class keeps them so in half precision, or the checkpoint does"


@dataclass(frozen=True)
class AuditOptions:
    """`max_ratio`: more stored bytes than this many times the needed ones fail. `parity`: compare the outputs with the
    checkpoint's too, where one is given (loads torch). `runtime`: open the graphs in onnxruntime and measure what
    memory that takes. `atol`, `rtol`: see `parity.tolerances`."""

    max_ratio: float = MAX_RATIO
    runtime: bool = False
    parity: bool = True
    atol: float | None = None
    rtol: float | None = None


@dataclass(frozen=True)
class AuditReport:
    """The answer of an audit. `parity` is None where it was not checked; `unchecked` says why."""

    kind: str
    """`onnx` or `checkpoint`."""
    files: tuple[tuple[str, int], ...]
    bytes: ByteCounts
    duplicates: tuple[Duplicate, ...]
    orphaned_files: tuple[str, ...]
    max_ratio: float
    parity: ParityReport | None = None
    unchecked: str | None = None
    runtime: RuntimeReport | None = None
    runtime_unchecked: str | None = "not asked for"
    widened: int = 0
    """What `expected` holds more because the export rightly keeps some parameters in float32."""

    @property
    def small_enough(self) -> bool:
        """Whether the files hold no more than the ratio allows."""
        return self.bytes.ratio is None or self.bytes.ratio <= self.max_ratio

    @property
    def passed(self) -> bool:
        """Small enough, and parity holds where it was checked."""
        return self.small_enough and (self.parity is None or self.parity.passed)

    @property
    def notes(self) -> list[str]:
        """What is needed in float32, why it did not pass, where logits differ first, and what parity did not check."""
        wide = [f"{self.widened:,} bytes of what is needed are float32: {WHY_WIDE}"] if self.widened else []
        return [*wide, *self.too_large, *([] if self.parity is None else [*self.parity.reasons, *self.parity.skipped])]

    @property
    def too_large(self) -> list[str]:
        """That the files hold more than the ratio allows, where they do."""
        if self.small_enough:
            return []
        return [f"stored {self.bytes.ratio:.4f} × what is needed, {self.max_ratio} is allowed"]

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "files": [{"name": name, "bytes": size} for name, size in self.files],
            "bytes": self.bytes.to_dict(),
            "duplicates": [duplicate.to_dict() for duplicate in self.duplicates],
            "orphaned_files": list(self.orphaned_files),
            "runtime": None if self.runtime is None else self.runtime.to_dict(),
            "runtime_not_checked": self.runtime_unchecked,
            "parity": None if self.parity is None else self.parity.to_dict(),
            "parity_not_checked": self.unchecked,
            "widened_bytes": self.widened,
            "max_ratio": self.max_ratio,
            "passed": self.passed,
            "notes": self.notes,
            "summary": summary(self.bytes, self.duplicates, self.max_ratio),
        }


def audit(
    path: Path | str,
    checkpoint: Checkpoint | Path | str | None = None,
    options: AuditOptions = AuditOptions(),
    progress: Progress = silent,
) -> AuditReport:
    """Count the bytes at `path`: an ONNX file, a folder of several, or a checkpoint folder.

    With `checkpoint`, the bytes that its parameters need are the measure, and the outputs of a single graph, or of an
    encoder's and a decoder's, are compared with it. Memory does not grow with the files. Raises `OnnxError`,
    `CheckpointError` or `UsageError` where there is nothing at `path` that can be read.
    """
    source = Checkpoint.open(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    stored = open_stored(Path(path))
    report = count(stored, source, options.max_ratio, progress)
    if options.runtime:
        report = _with_runtime(report, stored, folder_of(Path(path)), progress)
    if source is None:
        return replace(report, unchecked="no checkpoint was given")
    if stored.kind != "onnx":
        return replace(report, unchecked="a checkpoint has no graph to run")
    if not options.parity:
        return replace(report, unchecked="not asked for")
    return _with_parity(report, stored.graphs, source, options, progress)


def count(stored: Stored, checkpoint: Checkpoint | None, max_ratio: float, progress: Progress) -> AuditReport:
    """The bytes alone; parity is left unchecked."""
    duplicates = tuple(find_duplicates(stored.tensors, progress))
    orphaned = orphaned_bytes(stored.tensors, stored.data)
    referenced = referenced_bytes(stored.tensors)
    unique = min(referenced, unique_bytes(stored.tensors, duplicates))  # places that overlap are several
    needed = None if checkpoint is None else _expected(checkpoint, stored)
    expected = None if needed is None else needed.total
    counts = ByteCounts(referenced + orphaned, referenced, unique, expected, orphaned, stored.graph_bytes)
    twins = find_twins(stored.graphs, stored.tensors, duplicates, progress)
    found = sorted((*duplicates, *twins), key=lambda entry: -entry.wasted)
    report = AuditReport(stored.kind, stored.files, counts, tuple(found), stored.orphaned_files, max_ratio)
    return report if needed is None else replace(report, widened=needed.widened)


def _expected(checkpoint: Checkpoint, stored: Stored) -> Expected:
    return expected_bytes(checkpoint, export_element(stored.tensors), stored.tensors)


def folder_of(path: Path) -> Path:
    """Where what belongs to an export lies: the folder itself, or that of the file."""
    return path.parent if path.is_file() else path


def _with_runtime(report: AuditReport, stored: Stored, folder: Path, progress: Progress) -> AuditReport:
    reason = why_not_measured(stored.graphs)
    if reason is not None:
        return replace(report, runtime_unchecked=reason)
    return replace(report, runtime=measure_runtime(stored.graphs, folder, progress), runtime_unchecked=None)


def _with_parity(
    report: AuditReport, graphs: tuple[OnnxFile, ...], source: Checkpoint, options: AuditOptions, progress: Progress
) -> AuditReport:
    from vocabsurgeon.onnx.parity.check import check_parity, why_not

    reason = why_not(graphs)
    if reason is not None:
        return replace(report, unchecked=reason)
    files = [graph.path for graph in graphs]
    return replace(report, parity=check_parity(files, source, options.atol, options.rtol, progress))
