"""Outputs of a graph before and after: what was run, and how far apart they are. Plain data and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.onnx.parity.tolerances import Tolerance, tolerance_for

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OutputParity:
    """`graphs`: the graphs that ran. `checks`: inputs they ran on. `max_abs_diff`: largest difference of two numbers,
    None where something is not comparable at all. `tolerance`: what was allowed where that was.
    """

    graphs: tuple[str, ...]
    checks: tuple[str, ...]
    outputs: int
    values: int
    max_abs_diff: float | None
    tolerance: float
    worst: str
    reasons: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def bit_exact(self) -> bool:
        """Whether every output was the same, bit for bit."""
        return self.max_abs_diff == 0 and not self.reasons

    @property
    def passed(self) -> bool:
        """No output differs by more than the tolerance."""
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        """The contract's `parity` object; what is a matter of tokens was not measured here and is null."""
        return {
            "graphs": list(self.graphs),
            "bit_exact": self.bit_exact,
            "max_abs_diff": self.max_abs_diff,
            "mean_kl": None,
            "top1_agreement": None,
            "greedy_equal": None,
            "passed": self.passed,
            "tolerance": self.tolerance,
            "outputs": self.outputs,
            "values": self.values,
            "checks": list(self.checks),
            "worst": self.worst,
            "reasons": list(self.reasons),
            "skipped": list(self.skipped),
        }


class Comparison:
    """Adds up pairs of outputs. `outputs`: how many so far. `atol`, `rtol`: see `tolerances`."""

    def __init__(self, atol: float | None = None, rtol: float | None = None) -> None:
        self._given = atol, rtol
        self._graphs: dict[str, None] = {}
        self._checks: dict[str, None] = {}
        self.outputs = self._values = 0
        self._max, self._allowed, self._worst = 0.0, 0.0, "nothing differs"
        self._reasons: list[str] = []

    def add(self, graph: str, check: str, output: str, dtype: str, before: Any, after: Any) -> None:
        """Compare one output; `dtype` is the graph's floating type (torch spelling).

        Floats may differ by the tolerance at the scale of the largest one; all else may not.
        """
        self._graphs[graph] = self._checks[check] = None
        self.outputs += 1
        where = f"{graph}, {check}: {output}"
        if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray):
            self._require(_same(before, after), where, f"is {after}" if isinstance(after, str) else "differs")
            return
        self._values += before.size
        if before.shape != after.shape or before.dtype != after.dtype:
            self._require(False, where, f"is {after.dtype} {after.shape} instead of {before.dtype} {before.shape}")
        elif before.tobytes() != after.tobytes():
            self._add_difference(where, tolerance_for(dtype, *self._given), before, after)

    def report(self, skipped: tuple[str, ...]) -> OutputParity | None:
        """What came of it; None where nothing was compared."""
        if not self.outputs:
            return None
        difference = self._max if np.isfinite(self._max) else None
        return OutputParity(
            tuple(self._graphs),
            tuple(self._checks),
            self.outputs,
            self._values,
            difference,
            self._allowed,
            self._worst,
            tuple(self._reasons),
            skipped,
        )

    def _add_difference(self, where: str, tolerance: Tolerance, before: Array, after: Array) -> None:
        if not np.issubdtype(before.dtype, np.floating):
            self._require(np.array_equal(before, after), where, "differs, and is no floating-point number")
            return
        old, new = before.astype(np.float64), after.astype(np.float64)
        if not np.array_equal(np.isfinite(old), np.isfinite(new)) or not _same_specials(old, new):
            self._max, self._worst = np.inf, where
            self._require(False, where, "is not a finite number in other places than before")
            return
        finite = np.isfinite(old)
        gap = float(np.abs(old - new, where=finite, out=np.zeros_like(old)).max(initial=0.0))
        allowed = tolerance.allowed(float(np.abs(old[finite]).max(initial=0.0)))
        if gap > self._max:
            self._max, self._worst, self._allowed = gap, where, allowed
        self._require(gap <= allowed, where, f"differs by {gap:.3g}, {allowed:.3g} is allowed")

    def _require(self, holds: bool, where: str, what: str) -> None:
        if not holds:
            self._reasons.append(f"{where} {what}")


def _same(before: Any, after: Any) -> bool:
    """Whether two outputs that are no tensors (lists and maps of them, absent ones) are the same, bit for bit."""
    if type(before) is not type(after):
        return False
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_same, before, after))
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    if isinstance(before, np.ndarray):
        return bool((before.shape, before.dtype) == (after.shape, after.dtype) and before.tobytes() == after.tobytes())
    return bool(before == after)


def _same_specials(old: Array, new: Array) -> bool:
    return bool(np.array_equal(old[~np.isfinite(old)], new[~np.isfinite(new)], equal_nan=True))
