"""Figures over pairs of logits, taken position by position: nothing but sums is kept, and where the worst was seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from vocabsurgeon.onnx.parity.report import ParityReport
from vocabsurgeon.onnx.parity.tolerances import Tolerance
from vocabsurgeon.onnx.parity.trail import Trail

Array = np.ndarray[Any, Any]
_AT_A_TIME = 1 << 19
"""Logits that are taken at a time: they are widened to float64."""


class Tally:
    """Sums up the numbers that are `add`ed; `report` turns the sums into a verdict.

    `choices`: they are logits, so that the likeliest token and the distribution are compared too.
    """

    def __init__(self, choices: bool = True) -> None:
        self._choices = choices
        self._positions, self._kl, self._scale = 0, 0.0, 0.0
        self._max_abs_diff, self._worst = 0.0, "nothing differs"
        self.trail: Trail | None = None
        """The calls that led to the largest difference; None where nothing differs, or they were not told."""
        self._margins: list[float] = []
        """How far the model's top two are apart, wherever the export's choice is another."""
        self._greedy_equal, self._decoded = True, False
        self._nans = [0, 0]
        """Positions with a NaN, of the model and of the export."""
        self._checks: dict[str, float] = {}
        """Check → the largest difference in it."""
        self.other_shape: str | None = None
        """What the export gave in another shape than the model, in words."""

    def add(self, check: str, model: Array, export: Array, *, greedy: bool = False, trail: Trail | None = None) -> None:
        """Compare whole rows of logits `[positions, rows]` float32 of the model and of the export. `greedy`: they
        choose tokens. `trail`: how they were come by."""
        self._checks.setdefault(check, 0.0)
        step = max(1, _AT_A_TIME // model.shape[-1])
        for start in range(0, len(model), step):
            a, b = model[start : start + step], export[start : start + step]
            self._add_differences(check, start, a, b, trail)
            self._positions += len(a)
            if self._choices:
                self._add_choices(a, b, greedy)
                self._kl += float(_divergence(a.astype(np.float64), b.astype(np.float64)).sum())

    def add_other_shape(self, check: str, model: tuple[int, ...], export: tuple[int, ...]) -> None:
        """Note that the export gave an array of another shape than the model: no number of it can be compared."""
        self._checks[check] = self._max_abs_diff = np.inf
        self._worst, self.trail = check, None
        self.other_shape = f"of shape {list(export)} where the model gives {list(model)} ({check})"

    def report(
        self, dtype: str, tolerance: Tolerance, skipped: tuple[str, ...] = (), encoder: ParityReport | None = None
    ) -> ParityReport:
        """The verdict on everything added, by `tolerance` at the scale of the model's largest number; `encoder` is that
        on the encoder's states."""
        positions = max(1, self._positions)
        allowed = tolerance.allowed(self._scale)
        return ParityReport(
            dtype=dtype,
            max_abs_diff=self._max_abs_diff,
            mean_kl=self._kl / positions if self._choices else None,
            top1_agreement=1 - len(self._margins) / positions if self._choices else None,
            greedy_equal=self._greedy_equal if self._decoded else None,
            tolerance=allowed,
            clear_misses=sum(not margin <= 2 * allowed for margin in self._margins),
            positions=self._positions,
            checks=tuple(self._checks),
            failed_checks=tuple(check for check, gap in self._checks.items() if not gap <= allowed),
            worst=self._worst,
            model_nans=self._nans[0],
            export_nans=self._nans[1],
            other_shape=self.other_shape,
            skipped=skipped,
            encoder=encoder,
        )

    def _add_differences(self, check: str, start: int, model: Array, export: Array, trail: Trail | None) -> None:
        with np.errstate(invalid="ignore"):
            gaps = np.abs(model - export).max(axis=-1)
        if np.isnan(gaps).any():  # of a NaN, or of two equal infinities
            gaps = self._gaps_of_what_is_no_number(model, export)
        worst = int(np.argmax(gaps))  # a NaN is the largest of all
        self._checks[check] = float(np.maximum(self._checks[check], gaps[worst]))
        if gaps[worst] > self._max_abs_diff or (np.isnan(gaps[worst]) and not np.isnan(self._max_abs_diff)):
            self._max_abs_diff, self._worst = float(gaps[worst]), f"{check}, position {start + worst}"
            self.trail = trail
        scale = float(np.maximum(model.max(), -model.min()))
        if not np.isfinite(scale):
            scale = float(np.abs(model[np.isfinite(model)]).max(initial=0.0))
        self._scale = max(self._scale, scale)

    def _gaps_of_what_is_no_number(self, model: Array, export: Array) -> Array:
        self._nans = [
            seen + int(np.isnan(x).any(axis=-1).sum()) for seen, x in zip(self._nans, (model, export), strict=True)
        ]
        with np.errstate(invalid="ignore"):
            gaps: Array = np.where(model == export, np.float32(0), np.abs(model - export)).max(axis=-1)
        return gaps

    def _add_choices(self, model: Array, export: Array, greedy: bool) -> None:
        differs = model.argmax(axis=-1) != export.argmax(axis=-1)
        for row in model[differs]:
            second, first = np.sort(row)[-2:] if len(row) > 1 else (-np.inf, row[0])
            self._margins.append(float(first - second))
        self._decoded |= greedy
        if greedy and differs.any():
            self._greedy_equal = False


def _divergence(model: Array, export: Array) -> Array:
    """Kullback-Leibler divergence of the export's distribution from the model's, in nats, per position."""
    p, q = _log_softmax(model), _log_softmax(export)
    with np.errstate(invalid="ignore"):
        terms = np.exp(p) * (p - q)
    nats: Array = np.maximum(np.where(np.isneginf(p), 0.0, terms).sum(axis=-1), 0.0)
    return nats


def _log_softmax(logits: Array) -> Array:
    with np.errstate(invalid="ignore"):
        shifted = logits - logits.max(axis=-1, keepdims=True)
        normed: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normed
