"""Figures over positions: the divergence of one model's logits from another's, and how well each predicts the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.surgery.cost.result import NotMeasured

if TYPE_CHECKING:
    from torch import Tensor

_POSITIONS = 2
"""Positions in work at a time: with a large vocabulary, two rows are what a core's own cache holds."""


@dataclass
class Tally:
    """What is collected of one candidate, position by position."""

    divergences: list[float] = field(default_factory=list)
    agreements: int = 0
    before: list[float] = field(default_factory=list)
    """-log of what the original gives the probe's own token; `after`: what the tied model gives it."""
    after: list[float] = field(default_factory=list)

    def add(self, original: Tensor, tied: Tensor, wanted: Tensor) -> None:
        """Count the positions of one chunk: what `log_probabilities` gives of the original `[n, V]`, the tied model's
        logits `[n, V]`, and the ids `[m]` that the first m positions predict.

        Raises `NotMeasured` where a divergence is not finite.
        """
        for start in range(0, len(original), _POSITIONS):
            part = slice(start, start + _POSITIONS)
            self._add(original[part], tied[part].float().log_softmax(-1), wanted[part])

    def figures(self) -> dict[str, Any]:
        """The numeric fields of `Cost`."""
        return {
            "kl_mean": float(np.mean(self.divergences)),
            "kl_p95": float(np.percentile(self.divergences, 95)),
            "top1_agreement": self.agreements / len(self.divergences),
            "perplexity_before": _perplexity(self.before),
            "perplexity_after": _perplexity(self.after),
            "positions": len(self.divergences),
        }

    def _add(self, p: Tensor, q: Tensor, wanted: Tensor) -> None:
        gaps = _divergences(p, q)
        if not gaps.isfinite().all():
            raise NotMeasured("its logits are not finite")
        self.divergences += gaps.clamp(min=0).tolist()
        self.agreements += int((p.argmax(-1) == q.argmax(-1)).sum())
        rows = wanted[: len(p), None]
        for side, kept in ((p, self.before), (q, self.after)):
            kept += (-side[: len(rows)].gather(-1, rows)[:, 0]).tolist()


def log_probabilities(logits: Tensor) -> Tensor:
    """The logarithms of what softmax gives, float32 `[n, V]`."""
    return logits.float().log_softmax(-1)


def _divergences(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) of each row, float64; what p never gives counts nothing, whatever q says."""
    import torch

    share = p.exp()
    terms = (p - q).mul_(share)
    sums = terms.sum(-1, dtype=torch.float64)
    if sums.isfinite().all():  # looking for impossible ids takes longer than all the rest, and few models have them
        return sums
    return terms.masked_fill_(share == 0, 0.0).sum(-1, dtype=torch.float64)


def _perplexity(losses: list[float]) -> float | None:
    if not losses:
        return None
    mean = float(np.mean(losses))
    return float(np.exp(mean)) if mean < 700 else None
