"""The promise about a copy that is no copy of bits: a table times a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vocabsurgeon.checkpoint.evaluate import scaled_blocks
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict


@dataclass(frozen=True)
class CopyScaled(Promise):
    """The new tensor `key` holds the source's `source` times `factor`, rounded once."""

    name: ClassVar[str] = "copy_scaled"
    key: str
    source: str
    factor: float

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Computes the product again, from the source, and compares as bytes."""
        old, new = before.tensors.get(self.source), after.tensors.get(self.key)
        if old is None or new is None:
            return Verdict(False, (f"{self.key} is missing",))
        if (old.dtype, old.shape) != (new.dtype, new.shape) or len(new.shape) != 2:
            return Verdict(False, (f"{self.key} is {new.dtype.name} {list(new.shape)}, unlike {self.source}",))
        result = after.rows(self.key)
        problems = [
            f"{self.key}: a row from {start} to {start + len(rows) - 1} is not {self.source} times {self.factor:.6g}"
            for start, rows in scaled_blocks(before.rows(self.source), self.factor)
            if rows.tobytes() != result.block(start, start + len(rows)).tobytes()
        ]
        return verdict(problems, f"{self.key} is {self.source} times {self.factor:.6g}")
