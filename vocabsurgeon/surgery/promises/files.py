"""Promises about the folder: every other file byte for byte, and an index that tells the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from vocabsurgeon.checkpoint.compare import files_equal
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict
from vocabsurgeon.surgery.promises.written_files import json_differences


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

    An index that is carried over byte for byte with tensors of the same size may go on saying what it said. With
    `as_source`, for our own results, everything else that index and headers say beside the tensors is the source's.
    """

    name: ClassVar[str] = "index_exact"
    as_source: bool = False

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares the index with the headers it stands for."""
        index = after.shards.index
        told = [*_metadata(before, after), *_further_keys(before, after)] if self.as_source else []
        if index is None or told:
            return verdict(told, "one weight file, no index")
        metadata, actual = index.value.get("metadata"), after.shards.total_size
        stated = metadata.get("total_size") if isinstance(metadata, dict) else None
        if stated != actual and _carried_over(before, after):
            return Verdict(True, (f"the index is the source's own, which says {stated} of {actual} bytes",))
        problems = [] if stated == actual else [f"total_size is {stated}, the tensors take {actual}"]
        return verdict(problems, f"the index lists {len(after.tensors)} tensors of {actual} bytes")


def _metadata(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    """Headers whose `__metadata__` is not that of the file of their name, or (of new files) of any of the source's."""
    old = before.shards.headers
    if before.shards.pickled:
        return
    for name, header in after.shards.headers.items():
        known = [old[name].metadata] if name in old else [other.metadata for other in old.values()]
        if header.metadata not in known:
            yield f"{name}: its metadata is {header.metadata!r:.200}, not the source's"


def _further_keys(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    """What the index says beside its map and the counts of bytes and parameters."""
    old, new = before.shards.index, after.shards.index
    if old is None or new is None:
        return
    for told in json_differences(_without_counts(old.value), _without_counts(new.value)):
        yield f"{after.shards.index_name}: {told}"


def _without_counts(index: Mapping[str, Any]) -> dict[str, Any]:
    metadata = index.get("metadata")
    kept = {key: held for key, held in index.items() if key not in ("weight_map", "metadata")}
    counts = ("total_size", "total_parameters")
    inner = metadata if isinstance(metadata, dict) else {}
    return {**kept, "metadata": {key: held for key, held in inner.items() if key not in counts}}


def _carried_over(before: Checkpoint, after: Checkpoint) -> bool:
    old, new = before.shards.index, after.shards.index
    same_size = before.shards.total_size == after.shards.total_size
    return old is not None and new is not None and old.raw == new.raw and same_size
