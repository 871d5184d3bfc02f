"""`ExportReport`: what was exported and how it measured up, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.account import FileAccount
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.audit import AuditReport
from vocabsurgeon.onnx.parity.report import ParityReport
from vocabsurgeon.onnx.parts import Parts
from vocabsurgeon.onnx.runtime_types import DTypeChoice
from vocabsurgeon.onnx.tasks import Task

SCHEMA = "vocabsurgeon.export/1"


@dataclass(frozen=True)
class ExportReport:
    """What was exported and how it measured up. `out` is None where it did not pass, and OUT does not exist then."""

    out: Path | None
    source: Checkpoint
    task: Task
    dtype: DTypeChoice
    opset: int
    exported: Parts
    computed: int
    """Bytes that no checkpoint holds and the graphs need: tables that the model computes when it is made."""
    widened: int
    """Bytes of parameters that the model's class keeps in a wider type than was asked for, beyond that type's."""
    audit: AuditReport
    parity: ParityReport
    files: tuple[FileAccount, ...] = ()
    """Every file of the checkpoint and of the export, and what became of it."""
    dry_run: bool = False

    @property
    def passed(self) -> bool:
        """Small enough, and the logits agree."""
        return self.small_enough and self.parity.passed

    @property
    def small_enough(self) -> bool:
        """Whether the files hold no more than the ratio allows. Computed tables and wide parameters may come on top;
        copies may not."""
        counted, most = self.audit.bytes, self.audit.max_ratio
        if self.audit.small_enough or not counted.expected:
            return self.audit.small_enough
        allowed = most * counted.expected + self.computed + self.unforeseen
        return counted.stored <= allowed and counted.stored <= most * counted.unique

    @property
    def unforeseen(self) -> int:
        """Bytes of wide parameters that the audit did not know of: what a class makes in float32 by itself."""
        return max(0, self.widened - self.audit.widened)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs of the graph, of the decoder's where there are two."""
        return tuple(self.exported.parts[-1].signature.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs of the graph, of the decoder's where there are two."""
        return tuple(self.exported.parts[-1].signature.outputs)

    @property
    def inputs_ignored(self) -> tuple[str, ...]:
        """Inputs that a graph takes for its readers' sake."""
        return tuple(name for part in self.exported.parts for name in part.ignored)

    @property
    def notes(self) -> list[str]:
        """What a user of the graph should know."""
        told = [f"exported in {self.dtype.exported}: {self.dtype.reason}", *self.exported.notes]
        if self.computed:
            told.append(f"{self.computed:,} bytes are tables that the model computes and no checkpoint holds")
        if self.widened:
            told.append(
                f"{self.widened:,} bytes more for parameters that the model's class keeps in float32"
                + (
                    f": {self.unforeseen:,} of them are not in the ratio"
                    if self.unforeseen
                    else ", which the ratio counts"
                )
            )
        told += [f"{name} is accepted and ignored: the model does not read it" for name in self.inputs_ignored]
        told += [] if self.small_enough else self.audit.too_large
        return [*told, *self.parity.reasons, *self.parity.skipped]

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON: the audit's keys, and what was exported."""
        config = self.source.config
        return {
            **self.audit.to_dict(),
            "schema": SCHEMA,
            "out": None if self.out is None else str(self.out),
            "dry_run": self.dry_run,
            "model_type": config.model_type,
            "architecture": config.architecture,
            "task": self.task.name,
            "cache": self.exported.caches,
            "dtype": self.dtype.to_dict(),
            "opset": self.opset,
            "computed_bytes": self.computed,
            "widened_bytes": self.widened,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "graphs": [
                {"file": part.file, "inputs": list(part.signature.inputs), "outputs": list(part.signature.outputs)}
                for part in self.exported.parts
            ],
            "inputs_ignored": list(self.inputs_ignored),
            "parity": self.parity.to_dict(),
            "parity_not_checked": None,
            "passed": self.passed,
            "files": [entry.to_dict() for entry in self.files],
            "notes": self.notes,
        }
