"""Promises about bits: old rows, new rows, untouched tensors, copies made and copies dropped. All streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vocabsurgeon.checkpoint.compare import rows_equal, tables_equal
from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, Normal, Zeros
from vocabsurgeon.checkpoint.evaluate import RowEvaluator
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict


@dataclass(frozen=True)
class OldRowsIdentical(Promise):
    """Every row of table `key` but `written` keeps its bits, and the table has `rows` rows now."""

    name: ClassVar[str] = "old_rows_identical"
    key: str
    axis: int
    rows: int
    written: tuple[int, ...]

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares all kept rows as bytes."""
        old, new = before.tensors.get(self.key), after.tensors.get(self.key)
        if old is None or new is None:
            return Verdict(False, (f"{self.key} is missing",))
        if new.shape[self.axis : self.axis + 1] < old.shape[self.axis : self.axis + 1]:
            return Verdict(False, (f"{self.key} was cut from {list(old.shape)} to {list(new.shape)}",))
        shape = (*old.shape[: self.axis], self.rows, *old.shape[self.axis + 1 :])
        if new.dtype != old.dtype or new.shape != shape:
            return Verdict(
                False, (f"{self.key} is {new.dtype.name} {list(new.shape)}, not {old.dtype.name} {list(shape)}",)
            )
        if self.axis:
            return self._whole(before, after)
        problems = [
            f"{self.key}: a row from {start} to {stop - 1} changed"
            for start, stop in self._kept(old.shape[0])
            if not rows_equal(before.rows(self.key), after.rows(self.key), start, stop)
        ]
        return verdict(problems, f"{self.key}: {old.shape[0] - self._rewritten(old)} old rows are identical")

    def _rewritten(self, old: TensorInfo) -> int:
        return sum(row < old.shape[self.axis] for row in self.written)

    def _kept(self, rows: int) -> Iterator[tuple[int, int]]:
        """The half-open ranges of old rows between the written ones."""
        start = 0
        for row in (*sorted(row for row in self.written if row < rows), rows):
            if start < row:
                yield start, row
            start = row + 1

    def _whole(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        old, new = before.rows(self.key, self.axis), after.rows(self.key, self.axis)
        count = old.shape[0]
        kept = np.setdiff1d(np.arange(count), self.written)
        same = old.block(0, count)[kept].tobytes() == new.block(0, count)[kept].tobytes()
        return verdict(
            [] if same else [f"{self.key}: an old entry changed"], f"{self.key}: {len(kept)} old entries are identical"
        )


@dataclass(frozen=True)
class NewRowsAsPlanned(Promise):
    """Each written row holds the bits that its expression gives on the source table."""

    name: ClassVar[str] = "new_rows_as_planned"
    key: str
    axis: int
    rows: tuple[tuple[int, MeanOf | CopyOf | Normal | Zeros], ...]

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Evaluates every expression again, from the source, and compares as bytes."""
        found = [place.tensors.get(self.key) for place in (before, after)]
        if any(info is None or not 0 <= self.axis < len(info.shape) for info in found):
            return Verdict(False, (f"{self.key} is missing or has no axis {self.axis}",))
        evaluator, result = RowEvaluator(before.rows(self.key, self.axis)), after.rows(self.key, self.axis)
        problems = [
            f"{self.key}: row {number} is not what the plan says"
            for number, expression in self.rows
            if not (0 <= number < result.shape[0] and _can_be_evaluated(expression, evaluator.table))
            or result.block(number, number + 1).tobytes() != evaluator.row(expression, number).tobytes()
        ]
        return verdict(problems, f"{self.key}: {len(self.rows)} written rows are as planned")


@dataclass(frozen=True)
class UntouchedTensorsIdentical(Promise):
    """Every tensor but `edited` keeps name, dtype, shape and bits; only `added` are new, only `dropped` are gone."""

    name: ClassVar[str] = "untouched_tensors_identical"
    edited: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares every untouched tensor as bytes."""
        expected = (set(before.tensors) | set(self.added)) - set(self.dropped)
        problems = [f"{key} is missing" for key in sorted(expected - set(after.tensors))]
        problems += [f"{key} appeared" for key in sorted(set(after.tensors) - expected)]
        kept = [key for key in before.tensors if key in after.tensors and key not in (*self.edited, *self.added)]
        problems += [f"{key} changed" for key in _changed(before, after, kept)]
        return verdict(problems, f"{len(kept)} untouched tensors are identical")


@dataclass(frozen=True)
class CopyIdentical(Promise):
    """The new tensor `key` holds the bits of the source's `source`."""

    name: ClassVar[str] = "copy_identical"
    key: str
    source: str

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares both as bytes."""
        if self.key not in after.tensors or self.source not in before.tensors:
            return Verdict(False, (f"{self.key} is missing",))
        same = tables_equal(before.rows(self.source), after.rows(self.key))
        return verdict(
            [] if same else [f"{self.key} differs from {self.source}"], f"{self.key} is a copy of {self.source}"
        )


@dataclass(frozen=True)
class DropLossless(Promise):
    """The dropped tensor `key` survives bit for bit as `kept`."""

    name: ClassVar[str] = "drop_lossless"
    key: str
    kept: str

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares both as bytes."""
        if self.key not in before.tensors or self.kept not in after.tensors:
            return Verdict(False, (f"{self.kept} is missing",))
        same = tables_equal(before.rows(self.key), after.rows(self.kept))
        return verdict(
            [] if same else [f"{self.key} was not equal to {self.kept}"], f"{self.kept} holds what {self.key} held"
        )


def _can_be_evaluated(expression: MeanOf | CopyOf | Normal | Zeros, table: TableReader) -> bool:
    """Whether the source has the rows that the expression names; a record may claim anything."""
    if isinstance(expression, Normal):
        return expression.seed >= 0
    ids = (
        expression.ids if isinstance(expression, MeanOf) else (expression.id,) if isinstance(expression, CopyOf) else ()
    )
    return all(0 <= number < table.shape[0] for number in ids)


def _changed(before: Checkpoint, after: Checkpoint, keys: Sequence[str]) -> list[str]:
    """Those of the tensors that differ. Two threads: reading needs no interpreter."""
    with ThreadPoolExecutor(2) as pool:
        same = pool.map(lambda key: tables_equal(before.rows(key), after.rows(key)), keys)
        return [key for key, equal in zip(keys, same, strict=True) if not equal]
