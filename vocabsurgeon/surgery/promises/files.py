"""Promises about the folder: every other file byte for byte, and an index that tells the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vocabsurgeon.checkpoint.compare import files_equal
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.shards import INDEX
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict


@dataclass(frozen=True)
class FilesCarried(Promise):
    """Every file but the weights, `written` and `omitted` is there, byte for byte; the omitted are not; none is new but `written`."""

    name: ClassVar[str] = "files_carried"
    written: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares every carried file as bytes."""
        weights = {*before.shards.headers, *after.shards.headers, INDEX, RECORD}
        carried = set(before.files) - weights - set(self.written) - set(self.omitted)
        problems = [f"{name} is missing" for name in sorted((carried | set(self.written)) - set(after.files))]
        allowed = carried | weights | set(self.written)
        problems += [f"{name} was not to be there" for name in sorted(set(after.files) - allowed)]
        kept = sorted(carried & set(after.files))
        problems += [f"{name} changed" for name in kept if not files_equal(before.path(name), after.path(name))]
        return verdict(problems, f"{len(kept)} other files are identical")


@dataclass(frozen=True)
class IndexExact(Promise):
    """Where there is an index, its `total_size` is the exact number of tensor bytes (opening has checked its map)."""

    name: ClassVar[str] = "index_exact"

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares the index with the headers it stands for."""
        index = after.shards.index
        if index is None:
            return Verdict(True, ("one weight file, no index",))
        stated = (index.value.get("metadata") or {}).get("total_size")
        actual = after.shards.total_size
        problems = [] if stated == actual else [f"total_size is {stated}, the tensors take {actual}"]
        return verdict(problems, f"the index lists {len(after.tensors)} tensors of {actual} bytes")
