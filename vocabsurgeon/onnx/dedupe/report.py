"""`DedupeReport`: what a deduplication merged, what it saved and how it was checked, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.onnx.byte_counts import ByteCounts
from vocabsurgeon.onnx.dedupe.comparison import OutputParity
from vocabsurgeon.onnx.duplicates import Duplicate
from vocabsurgeon.onnx.summary import size

SCHEMA = "vocabsurgeon.dedupe/1"


@dataclass(frozen=True)
class Merged:
    """A content that was stored more than once, and the forms in which the graphs use the one that is left."""

    duplicate: Duplicate
    forms: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """`{"tensors", "relation", "bytes", "forms"}`."""
        entry = self.duplicate.to_dict()
        return {**{key: entry[key] for key in ("tensors", "relation", "bytes")}, "forms": list(self.forms)}


@dataclass(frozen=True)
class DedupeReport:
    """`out` is None for a dry run and where a check failed: OUT does not exist then. `after` counts the result,
    `kept` names what it still stores more than once. `parity` None: not checked, `unchecked` says why.
    `intact`: whether every byte of the new data file is that of the tensor it stands for, None where nothing was
    written."""

    source: Path
    out: Path | None
    target: str
    dry_run: bool
    changed: bool
    files: tuple[tuple[str, int], ...]
    before: ByteCounts
    after: ByteCounts
    merged: tuple[Merged, ...]
    unfolded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Tables that a session would have folded into a second copy when it loads, and the forms that now read them."""
    kept: tuple[Duplicate, ...] = ()
    files_omitted: tuple[tuple[str, str], ...] = ()
    intact: bool | None = None
    parity: OutputParity | None = None
    unchecked: str | None = None
    consented: bool = False
    """Whether a result that could not be run is wanted all the same."""

    @property
    def passed(self) -> bool:
        """The weights are intact, and the outputs agree or were not to be checked."""
        if self.dry_run or not self.changed:
            return True
        outputs = self.consented if self.parity is None else self.parity.passed
        return self.intact is True and outputs

    @property
    def summary(self) -> str:
        """The one line that needs no knowledge of tensors."""
        if not self.changed:
            why = "what is stored twice cannot be merged" if self.kept else "nothing is stored twice, nothing to do"
            return f"{size(self.before.stored)}: {why}"
        saved = self.before.stored - self.after.stored
        if self.unfolded and not saved:
            return f"{size(self.before.stored)}: nothing is stored twice; a session can hold the token table once too"
        return f"{size(self.before.stored)} → {size(self.after.stored)}: {size(saved)} of {self._what()} gone"

    def _what(self) -> str:
        kinds = []
        if self.merged:
            kinds.append("copies")
        if self.before.orphaned:
            kinds.append("bytes that no tensor uses")
        return " and ".join(kinds) or "gaps"

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON."""
        return {
            "schema": SCHEMA,
            "source": str(self.source),
            "out": None if self.out is None else str(self.out),
            "target": self.target,
            "dry_run": self.dry_run,
            "changed": self.changed,
            "files": [{"name": name, "bytes": count} for name, count in self.files],
            "bytes": {"before": self.before.to_dict(), "after": self.after.to_dict()},
            "merged": [entry.to_dict() for entry in self.merged],
            "unfolded": [{"tensor": name, "forms": list(forms)} for name, forms in self.unfolded],
            "kept": [entry.to_dict() for entry in self.kept],
            "files_omitted": [{"file": name, "reason": reason} for name, reason in self.files_omitted],
            "weights_intact": self.intact,
            "parity": None if self.parity is None else self.parity.to_dict(),
            "parity_not_checked": self.unchecked,
            "passed": self.passed,
            "summary": self.summary,
        }
