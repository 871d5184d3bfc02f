"""What is going to happen, as a value: print it, test it as a table, execute it. Pure data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vocabsurgeon.checkpoint.account import FileAccount
from vocabsurgeon.checkpoint.edits import FileEdit, OmitFile, TensorEdit, WriteFile
from vocabsurgeon.surgery.codec import encode
from vocabsurgeon.surgery.promises import Promise


@dataclass(frozen=True)
class Refusal:
    """The answer is no: why, what shows it, and the ways out. Returned, never raised.

    `exit_code` 1: the operation would lose something; 2: it has no meaning here.
    """

    operation: str
    reason: str
    evidence: tuple[str, ...] = ()
    ways_out: tuple[str, ...] = ()
    exit_code: int = 2
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the operation's JSON holds beside."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON of a refused command."""
        return {
            "schema": f"vocabsurgeon.{self.operation}/1",
            "changed": False,
            "refused": True,
            "reason": self.reason,
            "evidence": list(self.evidence),
            "ways_out": list(self.ways_out),
            **self.details,
        }


@dataclass(frozen=True)
class Plan:
    """Tensor edits, file edits, and the promises that the result must keep. Staging needs the edits alone."""

    operation: str
    tensor_edits: tuple[TensorEdit, ...]
    file_edits: tuple[FileEdit, ...]
    promises: tuple[Promise, ...]
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """What the user should know about the request, a line each."""
    files: tuple[FileAccount, ...] = field(default=(), kw_only=True)
    """Every file of source and result, and what becomes of it."""
    details: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """What the operation's JSON holds beside, planned or carried out."""

    def __post_init__(self) -> None:
        if not self.promises:
            raise ValueError("a plan without promises cannot be proved, so it cannot be built")

    @property
    def changed(self) -> bool:
        """Whether the result differs from the source in anything but the report."""
        return bool(self.tensor_edits) or any(isinstance(edit, WriteFile) for edit in self.file_edits)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `--dry-run`: edits and promises; the content of written files is told by its size."""
        return {
            "schema": f"vocabsurgeon.{self.operation}/1",
            "dry_run": True,
            "changed": self.changed,
            "plan": {
                "tensor_edits": [encode(edit) for edit in self.tensor_edits],
                "files_written": [
                    {"file": edit.name, "bytes": len(edit.content)}
                    for edit in self.file_edits
                    if isinstance(edit, WriteFile)
                ],
                "files_omitted": omitted(self.file_edits),
                "files": [entry.to_dict() for entry in self.files],
                "promises": [promise.name for promise in self.promises],
            },
            "notes": list(self.notes),
            **self.details,
        }


def omitted(edits: tuple[FileEdit, ...]) -> list[dict[str, str]]:
    """The files that are not carried along, with the reason of each."""
    return [{"file": edit.name, "reason": edit.reason} for edit in edits if isinstance(edit, OmitFile)]
