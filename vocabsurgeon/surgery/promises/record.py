"""The promise about the record: what a result was when it was written, it still is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vocabsurgeon.checkpoint.record import RECORD, check_record
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict


@dataclass(frozen=True)
class RecordIntact(Promise):
    """Every file of the result has the size and SHA-256 that its record holds, none is gone, none appeared.

    No plan makes this promise, as the record is written last: `verify` asks it of a result that has one.
    """

    name: ClassVar[str] = "record_intact"

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Hashes every file of the result; the source plays no part."""
        found = check_record(after.root)
        told = found.problems[:20] or found.unchecked or (f"{found.seen} files are as {RECORD} recorded them",)
        return Verdict(found.passed, tuple(told))
