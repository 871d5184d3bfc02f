"""What tying costs, as values: the figures of each candidate, continuations side by side, and what was not measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


class NotMeasured(Exception):
    """Something stands in the way of measuring; the text says what. Becomes a value before it leaves the package."""


@dataclass(frozen=True)
class Continuation:
    """A prompt and what the two models go on with, greedily."""

    prompt: str
    original: str
    tied: str


@dataclass(frozen=True)
class Cost:
    """What one candidate costs against the original, in nats per token over `positions` predicted positions.

    None: not measured, with the reason in `note`.
    """

    candidate: str
    kl_mean: float | None = None
    """KL(original ‖ tied), mean over positions."""
    kl_p95: float | None = None
    """Its 95th percentile over positions."""
    top1_agreement: float | None = None
    """Share of positions with the same likeliest token, 0 to 1."""
    perplexity_before: float | None = None
    """Of the probe's own tokens under the original; None where the model is not one that predicts them."""
    perplexity_after: float | None = None
    continuations: tuple[Continuation, ...] = ()
    bytes_saved: int = 0
    positions: int = 0
    note: str | None = None


@dataclass(frozen=True)
class CostTable:
    """The candidates' costs, or in `reason` why the model could not be run."""

    costs: tuple[Cost, ...]
    probe: str
    passages: int = 0
    tokens: int = 0
    random_ids: bool = False
    """Whether random ids stood in for text."""
    dtype: str | None = None
    """What the model was run in, as torch spells it."""
    notes: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def best(self) -> Cost | None:
        """The least mean KL, the earlier candidate at a tie; None where none was measured."""
        measured = [cost for cost in self.costs if cost.kl_mean is not None]
        return min(measured, key=lambda cost: cost.kl_mean or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `cost`; null for what was not measured."""
        return {
            "measured": self.best is not None,
            "reason": self.reason,
            "probe": {
                "source": self.probe,
                "passages": self.passages,
                "tokens": self.tokens,
                "random_ids": self.random_ids,
            },
            "dtype": self.dtype,
            "best": self.best.candidate if self.best else None,
            "candidates": [asdict(cost) | {"continuations": [*map(asdict, cost.continuations)]} for cost in self.costs],
            "notes": list(self.notes),
        }
