"""What an operation did, as one value in the shape of `inspect`. Rendering it is the report package's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.account import FileAccount, completed
from vocabsurgeon.surgery.plan import Plan, omitted
from vocabsurgeon.surgery.prove import Proof
from vocabsurgeon.vocabulary.describe import Description


@dataclass(frozen=True)
class OperationReport:
    """The plan that ran, the checkpoint before and after, and the proof. `after` is None where nothing was written."""

    plan: Plan
    before: Description
    after: Description | None
    proof: Proof
    source: str
    out: str

    @property
    def passed(self) -> bool:
        """Whether OUT was written; an unchecked result counts as written, not as proved."""
        return self.after is not None

    @property
    def files(self) -> tuple[FileAccount, ...]:
        """Every file of source and result, and what became of it."""
        planned = self.plan.files
        return completed(planned, self.before.source, self.after.source) if self.after else planned

    def to_dict(self) -> dict[str, Any]:
        """The JSON: `inspect`'s shape for the result, what was before, and the proof."""
        before = self.before.to_dict()
        shown = self.after.to_dict() if self.after else before
        return {
            **shown,
            "schema": f"vocabsurgeon.{self.plan.operation}/1",
            "source": self.source,
            "out": self.out if self.passed else None,
            "changed": self.plan.changed and self.passed,
            "before": {key: before[key] for key in ("tables", "tie", "vocabulary", "bytes")},
            "files_omitted": omitted(self.plan.file_edits),
            "files": [entry.to_dict() for entry in self.files],
            "notes": list(self.plan.notes),
            **self.plan.details,
            **self._details(),
            **self.proof.to_dict(),
        }

    def _details(self) -> dict[str, Any]:
        """What a particular operation adds."""
        return {}
