"""`ParityReport`: how far an export's logits are from the model's, as plain data. Running the two is `parity`'s."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class ParityReport:
    """`max_abs_diff`: largest difference of two logits at attended positions; `mean_kl`: mean Kullback-Leibler
    divergence in nats per position; `top1_agreement`: share of positions whose most likely token is the same;
    `greedy_equal`: whether every decoding step chose the same token; `tolerance`: what the difference may be.
    `clear_misses`: positions where the choice differs though the model's top two are further apart than twice that.
    """

    dtype: str
    max_abs_diff: float
    mean_kl: float
    top1_agreement: float
    greedy_equal: bool
    tolerance: float
    clear_misses: int
    positions: int
    checks: tuple[str, ...]
    worst: str
    """Where the largest difference was seen."""
    model_nans: int = 0
    export_nans: int = 0
    """Positions at which the model's or the export's logits hold a NaN."""
    skipped: tuple[str, ...] = ()
    """What could not be checked, and why."""

    @property
    def passed(self) -> bool:
        """Within tolerance (a NaN is not), and the same choice wherever the choice is clear."""
        return self.max_abs_diff <= self.tolerance and self.clear_misses == 0

    @property
    def reasons(self) -> list[str]:
        """Why it did not pass, one line each; empty where it did."""
        told = []
        if self.model_nans:
            told.append(
                f"the model's own logits are not numbers at {self.model_nans} of {self.positions} positions: "
                f"it does not work in {self.dtype}"
            )
        if self.export_nans:
            told.append(f"the export's logits are not numbers at {self.export_nans} of {self.positions} positions")
        if isfinite(self.max_abs_diff) and self.max_abs_diff > self.tolerance:
            told.append(f"logits differ by {self.max_abs_diff:.3g} ({self.worst}), {self.tolerance:.3g} is allowed")
        if self.clear_misses:
            told.append(f"another token is the most likely at {self.clear_misses} positions where the choice is clear")
        return told

    def to_dict(self) -> dict[str, Any]:
        """The contract's `parity` object, with what it was measured on."""
        return {
            "dtype": self.dtype,
            "max_abs_diff": _finite(self.max_abs_diff),
            "mean_kl": _finite(self.mean_kl),
            "top1_agreement": self.top1_agreement,
            "greedy_equal": self.greedy_equal,
            "passed": self.passed,
            "tolerance": self.tolerance,
            "clear_misses": self.clear_misses,
            "positions": self.positions,
            "checks": list(self.checks),
            "worst": self.worst,
            "reasons": self.reasons,
            "skipped": list(self.skipped),
        }


def _finite(value: float) -> float | None:
    """None for what JSON has no number for: a difference to NaN is no measurement, only a failure."""
    return value if isfinite(value) else None
