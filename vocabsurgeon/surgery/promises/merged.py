"""Promises about two different tables made one: which bits stayed, which are a mean, what the norm was given."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.evaluate import mean_blocks, round_once
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict


@dataclass(frozen=True)
class KeptIdentical(Promise):
    """The result's table `key` holds the bits that `source` held; `dropped`, the other of the two, is gone."""

    name: ClassVar[str] = "kept_identical"
    key: str
    source: str
    dropped: str

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares the kept table as bytes."""
        problems = _not_merged(before, after, self.key, self.dropped)
        if self.source not in before.tensors:
            problems.append(f"{self.source} is missing in the source")
        if not problems and not tables_equal(before.rows(self.source), after.rows(self.key)):
            problems.append(f"{self.key} is not what {self.source} was")
        return verdict(problems, f"{self.key} holds what {self.source} held; {self.dropped} is gone")


@dataclass(frozen=True)
class MeanAsPlanned(Promise):
    """The result's table `key` is the mean of its own old content and `dropped`, which is gone."""

    name: ClassVar[str] = "mean_as_planned"
    key: str
    dropped: str

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Computes the mean again, from the source, and compares as bytes."""
        problems = _not_merged(before, after, self.key, self.dropped)
        if problems:
            return Verdict(False, tuple(problems))
        old, other, new = before.tensors[self.key], before.tensors[self.dropped], after.tensors[self.key]
        alike = old.shape == other.shape == new.shape and old.dtype == new.dtype
        if not (alike and old.shape and old.dtype.floating and other.dtype.floating):
            return Verdict(False, (f"{self.key} is {new.dtype.name} {list(new.shape)}, no mean of the two",))
        first, second, result = before.rows(self.key), before.rows(self.dropped), after.rows(self.key)
        problems = [
            f"{self.key}: a row from {start} to {start + len(rows) - 1} is not the mean"
            for start, rows in mean_blocks(first, second, first.dtype)
            if rows.tobytes() != result.block(start, start + len(rows)).tobytes()
        ]
        return verdict(problems, f"{self.key} is the mean of itself and {self.dropped}, which is gone")


@dataclass(frozen=True)
class ValuesAsPlanned(Promise):
    """The result's tensor `key` has its old dtype and shape and the `values`, rounded once."""

    name: ClassVar[str] = "values_as_planned"
    key: str
    values: tuple[float, ...]

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares as bytes."""
        old, new = before.tensors.get(self.key), after.tensors.get(self.key)
        if old is None or new is None:
            return Verdict(False, (f"{self.key} is missing",))
        if (old.dtype, old.shape) != (new.dtype, new.shape) or len(self.values) != prod(new.shape) or not new.shape:
            return Verdict(False, (f"{self.key} is {new.dtype.name} {list(new.shape)}, not what was planned",))
        table = after.rows(self.key)
        same = round_once(np.array(self.values, np.float64), table.dtype).tobytes()
        problems = [] if table.block(0, table.shape[0]).tobytes() == same else [f"{self.key} has other values"]
        return verdict(problems, f"{self.key}: {len(self.values)} values are as planned")


def _not_merged(before: Checkpoint, after: Checkpoint, key: str, dropped: str) -> list[str]:
    """What keeps `key` and `dropped` from being two tensors of which one is left."""
    problems = [f"{name} is missing in the source" for name in (key, dropped) if name not in before.tensors]
    problems += [f"{key} is missing"] if key not in after.tensors else []
    problems += [f"{dropped} is still there"] if dropped in after.tensors else []
    return problems
