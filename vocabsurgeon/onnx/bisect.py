"""`bisect`: the first layer whose output differs between a model and its graph, so that a failed parity says where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.quiet import quiet
from vocabsurgeon.onnx.inner_values import InnerValues
from vocabsurgeon.onnx.model_calls import accepts
from vocabsurgeon.onnx.signature import IDS, LOGITS, MASK, POSITIONS
from vocabsurgeon.onnx.tolerances import tolerance_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FirstDifference:
    """`where`: `embedding`, `layer N` (from 0), `final norm` or `LM head`. `max_abs_diff` to the nearest value that the
    graph computes, `tolerance` what it may be. `agrees_until`: the graph's value that is the state before, None where
    there is none."""

    where: str
    max_abs_diff: float
    tolerance: float
    agrees_until: str | None

    def to_dict(self) -> dict[str, Any]:
        """The report's object."""
        return {
            "where": self.where,
            "max_abs_diff": self.max_abs_diff if np.isfinite(self.max_abs_diff) else None,
            "tolerance": self.tolerance,
            "agrees_until": self.agrees_until,
        }

    def __str__(self) -> str:
        after = "" if self.agrees_until is None else f", {self.agrees_until} before it agrees"
        return f"it starts at {self.where}, whose output differs by {self.max_abs_diff:.3g}{after}"


@dataclass(frozen=True)
class Unfound:
    """Why no layer could be named."""

    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The report's object."""
        return {"where": None, "reason": self.reason}

    def __str__(self) -> str:
        return f"where it starts was not found: {self.reason}"


def bisect(model: PreTrainedModel, graph: Path, sample: Mapping[str, Array]) -> FirstDifference | Unfound:
    """Compare the model's hidden states, one after another, with what the graph computes for the same `sample`.

    `sample`: graph input → array of int64, from an empty cache; `input_ids [batch, sequence]` at least. The graph keeps
    no names of layers, so a state is looked for among the values of its size that the graph computes after the state
    before, and the nearest one counts. What lies within the dtype's tolerance at the state's own scale agrees. Memory
    is the graph's and its inner values': keep the sample short.
    """
    states = _states(model, sample)
    if states is None:
        return Unfound("the model gives no hidden states")
    names, expected = states
    inner = InnerValues(graph, sample)
    if inner.unusable is not None:
        return Unfound(inner.unusable)
    kind = str(model.dtype).removeprefix("torch.")
    before: str | None = None
    attended = _attended(sample)
    for name, state in zip(names, expected, strict=True):
        allowed = tolerance_for(kind).allowed(float(np.abs(state[attended]).max(initial=0.0)))
        found, distance = inner.nearest(state, after=before, where=attended)
        if found is None:
            return Unfound(f"the graph computes nothing of the size of the output of the {name}")
        if not distance <= allowed:
            return FirstDifference(name, distance, allowed, before)
        before = found
    return Unfound("every layer's output agrees for this sample, the difference lies in what else was compared")


def locate(model: PreTrainedModel, graph: Path, ids: Sequence[int]) -> FirstDifference | Unfound:
    """`bisect` on one prompt, all of it attended to."""
    row = np.array([ids], np.int64)
    return bisect(model, graph, {IDS: row, MASK: np.ones_like(row), POSITIONS: np.arange(row.size).reshape(row.shape)})


def _attended(sample: Mapping[str, Array]) -> Any:
    """Which positions count, as an index of `[batch, sequence]`: what a hidden token attends to differs by runtime."""
    mask = sample.get(MASK)
    return np.ones(sample[IDS].shape, bool) if mask is None else mask.astype(bool)


def _states(model: PreTrainedModel, sample: Mapping[str, Array]) -> tuple[Sequence[str], Sequence[Array]] | None:
    """Names and values `[batch, sequence, width]` float32 of the model's hidden states, logits last."""
    import torch

    given = {name: torch.from_numpy(array) for name, array in sample.items() if accepts(model, name)}
    with torch.no_grad(), quiet():
        try:
            outputs: Any = model(**given, output_hidden_states=True)
        except Exception:  # a model class raises what it likes for inputs that it does not take
            return None
    states = outputs.get("hidden_states")
    if not states or len(states) < 2:
        return None
    names = ["embedding", *(f"layer {number}" for number in range(len(states) - 2)), _last(states)]
    arrays = [state.float().numpy() for state in states]
    logits = outputs.get(LOGITS)
    return (names, arrays) if logits is None else ([*names, "LM head"], [*arrays, logits.float().numpy()])


def _last(states: Sequence[Any]) -> str:
    """transformers gives the last layer's output after the final norm where there is one."""
    return f"layer {len(states) - 2} or the final norm"
