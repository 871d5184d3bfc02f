"""`bisect`: the first layer whose output differs between a model and its graph, so that a failed parity says where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.onnx.parity.inner_values import InnerValues, farthest
from vocabsurgeon.onnx.parity.tolerances import Tolerance

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class State:
    """What the model gives somewhere, `[batch, sequence, width]`, and the positions `[batch, sequence]` that count."""

    name: str
    value: Array
    where: Array


@dataclass(frozen=True, eq=False)
class Kept:
    """What both sides have in their caches before the call, `[batch, length, …]` each, and the positions
    `[batch, length]` that count."""

    name: str
    model: Array
    export: Array
    where: Array


@dataclass(frozen=True)
class FirstDifference:
    """`where`: `embedding`, `layer N` (from 0), `final norm` or `LM head`; with two graphs the encoder's or the
    decoder's; or the cache of a layer, where an earlier call left another one. `max_abs_diff` to the nearest value that
    the graph computes, `tolerance` what it may be. `agrees_until`: the graph's value that is the state before, None
    where there is none."""

    where: str
    max_abs_diff: float
    tolerance: float
    agrees_until: str | None

    def to_dict(self) -> dict[str, Any]:
        """The report's object."""
        return {
            "where": self.where,
            "max_abs_diff": self.max_abs_diff if np.isfinite(self.max_abs_diff) else None,
            "tolerance": self.tolerance if np.isfinite(self.tolerance) else None,
            "agrees_until": self.agrees_until,
        }

    def __str__(self) -> str:
        by = f"differs by {self.max_abs_diff:.3g}" if np.isfinite(self.max_abs_diff) else "is no number"
        after = "" if self.agrees_until is None else f", {self.agrees_until} before it agrees"
        what = "which" if "cache" in self.where else "whose output"
        return f"it starts at {self.where}, {what} {by}{after}"


@dataclass(frozen=True)
class Unfound:
    """Why no layer could be named."""

    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The report's object."""
        return {"where": None, "reason": self.reason}

    def __str__(self) -> str:
        return f"where it starts was not found: {self.reason}"


def bisect(found: Sequence[State | Kept], inner: InnerValues, tolerance: Tolerance) -> FirstDifference | Unfound:
    """Look for what a model gives in one call, in the order of its layers, among what the graph computes.

    The graph keeps no names of layers, so a state is looked for among the values of its size that the graph computes
    after the state before, and the nearest one counts. What lies within `tolerance` at the state's own scale agrees.
    The first that differs is that after which none agrees: a graph need not compute every state in the model's form.
    """
    if inner.unusable is not None:
        return Unfound(inner.unusable)
    before: str | None = None
    first: FirstDifference | Unfound | None = None
    for state in found:
        allowed = tolerance.allowed(_scale(state))
        if isinstance(state, Kept):
            distance = farthest(state.export, state.model, state.where)
            name: str | None = None
        else:
            name, distance = inner.nearest(state.value, after=before, where=state.where)
        if distance <= allowed:
            before, first = (name, None) if name is not None else (before, first)
        elif first is None and (name is not None or isinstance(state, Kept)):
            first = FirstDifference(state.name, distance, allowed, before)
        elif first is None:
            first = Unfound(f"the graph computes nothing of the size of the output of the {state.name}")
    return first or Unfound(
        "every layer's output agrees where onnxruntime runs the graph as it is written: "
        "its optimizations make the difference, or the tolerance asked for is narrower than the dtype's"
    )


def _scale(state: State | Kept) -> float:
    value = state.model if isinstance(state, Kept) else state.value
    return float(np.abs(value[state.where]).max(initial=0.0))
