"""Promises about the folder: every other file byte for byte, and an index that tells the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vocabsurgeon.checkpoint.compare import files_equal
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict


@dataclass(frozen=True)
class FilesCarried(Promise):
    """Every file but the weights and `written` is there byte for byte; `omitted` are not; only `written` may be new."""

    name: ClassVar[str] = "files_carried"
    written: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares every carried file as bytes."""
        weights = {*after.shards.files, RECORD}
        carried = set(before.files) - {*before.shards.files, RECORD} - set(self.written) - set(self.omitted)
        problems = [f"{name} is missing" for name in sorted((carried | set(self.written)) - set(after.files))]
        allowed = carried | weights | set(self.written)
        problems += [f"{name} was not to be there" for name in sorted(set(after.files) - allowed)]
        kept = sorted(carried & set(after.files))
        problems += [f"{name} changed" for name in kept if not files_equal(before.path(name), after.path(name))]
        return verdict(problems, f"{len(kept)} other files are identical")


@dataclass(frozen=True)
class IndexExact(Promise):
    """Where there is an index, its `total_size` is the exact number of tensor bytes (opening has checked its map).

    An index that is carried over byte for byte with tensors of the same size may go on saying what it said.
    """

    name: ClassVar[str] = "index_exact"

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares the index with the headers it stands for."""
        index = after.shards.index
        if index is None:
            return Verdict(True, ("one weight file, no index",))
        metadata, actual = index.value.get("metadata"), after.shards.total_size
        stated = metadata.get("total_size") if isinstance(metadata, dict) else None
        if stated != actual and _carried_over(before, after):
            return Verdict(True, (f"the index is the source's own, which says {stated} of {actual} bytes",))
        problems = [] if stated == actual else [f"total_size is {stated}, the tensors take {actual}"]
        return verdict(problems, f"the index lists {len(after.tensors)} tensors of {actual} bytes")


def _carried_over(before: Checkpoint, after: Checkpoint) -> bool:
    old, new = before.shards.index, after.shards.index
    same_size = before.shards.total_size == after.shards.total_size
    return old is not None and new is not None and old.raw == new.raw and same_size
