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
    skipped: tuple[str, ...] = ()
    """What could not be checked, and why."""

    @property
    def passed(self) -> bool:
        """Within tolerance (a NaN is not), and the same choice wherever the choice is clear."""
        return self.max_abs_diff <= self.tolerance and self.clear_misses == 0

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
            "skipped": list(self.skipped),
        }


def _finite(value: float) -> float | None:
    """None for what JSON has no number for: a difference to NaN is no measurement, only a failure."""
    return value if isfinite(value) else None
