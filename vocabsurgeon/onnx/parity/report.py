"""`ParityReport`: how far an export's logits are from the model's, as plain data. Running the two is `parity`'s."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vocabsurgeon.onnx.parity.bisect import FirstDifference, Unfound


@dataclass(frozen=True)
class ParityReport:
    """`max_abs_diff`: largest difference of two numbers at attended positions; where these are logits, `mean_kl`: mean
    Kullback-Leibler divergence in nats per position; `top1_agreement`: share of positions whose most likely token is
    the same; `greedy_equal`: whether every decoding step chose the same token; `tolerance`: what they may differ by.
    `clear_misses`: positions where the choice differs though the model's top two are further apart than twice that.
    """

    dtype: str
    max_abs_diff: float
    mean_kl: float | None
    top1_agreement: float | None
    greedy_equal: bool | None
    tolerance: float
    clear_misses: int
    positions: int
    checks: tuple[str, ...]
    failed_checks: tuple[str, ...]
    """Those in which a number differs by more than the tolerance."""
    worst: str
    """Where the largest difference was seen."""
    model_nans: int = 0
    export_nans: int = 0
    """Positions at which the model's or the export's logits hold a NaN."""
    other_shape: str | None = None
    """What the export gave in another shape than the model; numbers of it count as infinitely far."""
    skipped: tuple[str, ...] = ()
    """What could not be checked, and why."""
    encoder: ParityReport | None = None
    """The same for an encoder's states, where there are two graphs."""
    first_difference: FirstDifference | Unfound | None = None
    """The first layer whose output differs, or why none was found; None where nothing differs."""

    @property
    def passed(self) -> bool:
        """Within tolerance (a NaN is not), and the same choice wherever the choice is clear."""
        alike = self.max_abs_diff <= self.tolerance and self.clear_misses == 0
        return alike and (self.encoder is None or self.encoder.passed)

    @property
    def reasons(self) -> list[str]:
        """Why it did not pass, one line each; empty where it did."""
        what = "states" if self.mean_kl is None else "logits"
        told = [] if self.encoder is None else [f"encoder: {reason}" for reason in self.encoder.reasons]
        if self.other_shape is not None:
            told.append(f"the export gives {what} {self.other_shape}")
        if self.model_nans:
            told.append(
                f"the model's own {what} are not numbers at {self.model_nans} of {self.positions} positions: "
                f"it does not work in {self.dtype}"
            )
        if self.export_nans:
            told.append(f"the export's {what} are not numbers at {self.export_nans} of {self.positions} positions")
        if isfinite(self.max_abs_diff) and self.max_abs_diff > self.tolerance:
            told.append(f"{what} differ by {self.max_abs_diff:.3g} ({self.worst}), {self.tolerance:.3g} is allowed")
        if self.clear_misses:
            told.append(f"another token is the most likely at {self.clear_misses} positions where the choice is clear")
        if 0 < len(self.failed_checks) < len(self.checks):
            passed = [check for check in self.checks if check not in self.failed_checks]
            told.append(f"wrong in: {', '.join(self.failed_checks)}; right in: {', '.join(passed)}")
        return told if self.first_difference is None else [*told, str(self.first_difference)]

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
            "failed_checks": list(self.failed_checks),
            "worst": self.worst,
            "reasons": self.reasons,
            "skipped": list(self.skipped),
            "first_difference": None if self.first_difference is None else self.first_difference.to_dict(),
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
        }


def _finite(value: float | None) -> float | None:
    """None for what JSON has no number for: a difference to NaN is no measurement, only a failure."""
    return value if value is not None and isfinite(value) else None
