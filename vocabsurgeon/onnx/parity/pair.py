"""`Pair`: a model and its export, called together, each with its own cache; every call is tallied and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.onnx.parity.sides import Side
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.parity.trail import Call, Trail

Array = np.ndarray[Any, Any]


class OtherShape(Exception):
    """The export gave an array of another shape than the model: what follows from it cannot be compared."""


@dataclass
class Pair:
    """The model, the export, and where their logits are compared."""

    model: Side
    export: Side
    tally: Tally
    progress: Progress = silent
    model_past: Any = None
    export_past: Any = None
    trail: Trail = field(default_factory=Trail)
    width: int = 1
    """Numbers of a position, as the last step gave them."""

    @property
    def caches(self) -> bool:
        """Whether the export can continue from its cache."""
        return self.export.caches

    def restart(self) -> None:
        """Forget both caches; what was encoded last stays."""
        self.model_past = self.export_past = None
        self.trail = replace(self.trail, calls=())

    def encode(self, check: str, states: Tally, feed: Mapping[str, Array], attended: Array | None) -> None:
        """Have both encoders read `feed`, and compare in `states` what they give where `attended`, None: everywhere.

        Raises `OtherShape`, noted in `states`.
        """
        model: Any = self.model
        export: Any = self.export
        self.restart()
        self.trail = Trail((), feed)
        expected, found = model.encode(feed), export.encode(feed)
        _demand_shape(states, check, expected, found)
        where = np.ones(expected.shape[:2], bool) if attended is None else attended
        states.add(check, expected[where], found[where], trail=self.trail)

    def step(self, check: str, ids: Array, mask: Array, attended: Array, *, greedy: bool = False) -> Array:
        """Run `ids [batch, sequence]` on both sides, compare the logits where `attended`, return the model's.

        `mask [batch, past + sequence]` covers what both caches hold. Positions count attended tokens, as generation
        does. Raises `OtherShape`, noted in the tally.
        """
        expected, found = self.call(call_of(ids, mask))
        _demand_shape(self.tally, check, expected, found)
        self.width = int(expected.shape[-1])
        self.tally.add(check, expected[attended], found[attended], greedy=greedy, trail=self.trail)
        return expected

    def call(self, call: Call) -> tuple[Array, Array]:
        """What the model and the export give, untallied."""
        self.trail = replace(self.trail, calls=(*self.trail.calls, call))
        expected, self.model_past = self.model.run(call.ids, call.mask, call.positions, self.model_past)
        found, self.export_past = self.export.run(call.ids, call.mask, call.positions, self.export_past)
        return expected, found


def _demand_shape(tally: Tally, check: str, expected: Array, found: Array) -> None:
    if found.shape != expected.shape:
        tally.add_other_shape(check, expected.shape, found.shape)
        raise OtherShape(check)


def call_of(ids: Array, mask: Array) -> Call:
    """The call for `ids` after a past that `mask` reaches over; positions count attended tokens."""
    positions = np.maximum(mask.cumsum(axis=1) - 1, 0)[:, -ids.shape[1] :]
    return Call(*(np.ascontiguousarray(part, np.int64) for part in (ids, mask, positions)))
