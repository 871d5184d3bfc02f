"""`locate`: the calls of a failed check made again up to the first that differs, which is taken apart by layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vocabsurgeon.onnx.parity.bisect import FirstDifference, Kept, State, Unfound, bisect
from vocabsurgeon.onnx.parity.hidden_states import States
from vocabsurgeon.onnx.parity.inner_values import farthest
from vocabsurgeon.onnx.parity.pair import Pair
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.parity.tolerances import Tolerance
from vocabsurgeon.onnx.parity.trail import Call, Trail
from vocabsurgeon.onnx.signature import MASK, is_state, layer_of, part_of

Array = np.ndarray[Any, Any]
_STATELESS = Unfound("the model gives no hidden states")


def locate(pair: Pair, trail: Trail | None, allowed: float, tolerance: Tolerance) -> FirstDifference | Unfound:
    """Where the difference starts that was seen at the end of `trail`.

    `allowed`: what logits may differ by; the first call beyond it is taken apart, with the ids, mask, positions and
    caches of the failed check, each side its own cache. `tolerance` judges inner values. Without calls, the encoder is
    taken apart. Memory is the graph's and its inner values' for one call.
    """
    if trail is None:
        return Unfound("no two numbers differ")
    if not trail.calls:
        return _locate_in_encoder(pair, trail, tolerance)
    number = _first_beyond(pair, trail, allowed)
    _start(pair, trail)
    for call in trail.calls[:number]:
        pair.call(call)
    return _take_apart(pair, trail.calls[number], tolerance)


def _start(pair: Pair, trail: Trail) -> None:
    pair.restart()
    if trail.encoded is not None:
        pair.encode("again", Tally(choices=False), trail.encoded, None)


def _first_beyond(pair: Pair, trail: Trail, allowed: float) -> int:
    """The number of the first call whose logits differ by more than `allowed`, the last one where none does."""
    _start(pair, trail)
    for number, call in enumerate(trail.calls[:-1]):
        expected, found = pair.call(call)
        if not farthest(found, expected, call.attended) <= allowed:
            return number
    return len(trail.calls) - 1


def _take_apart(pair: Pair, call: Call, tolerance: Tolerance) -> FirstDifference | Unfound:
    model: Any = pair.model
    export: Any = pair.export
    kept = _kept(pair, call)  # before the call: the model adds to its cache in place
    inner = export.inner(call, pair.export_past)
    states = model.states(call, pair.model_past)
    if states is None:
        return _STATELESS
    return bisect(_in_order(_attended(states, call.attended), kept), inner, tolerance)


def _locate_in_encoder(pair: Pair, trail: Trail, tolerance: Tolerance) -> FirstDifference | Unfound:
    model: Any = pair.model
    export: Any = pair.export
    feed = trail.encoded or {}
    states = model.encoder_states(feed)
    if states is None:
        return Unfound("the model's encoder gives no hidden states")
    attended = feed[MASK].astype(bool) if MASK in feed else None
    return bisect(_attended(states, attended), export.encoder_inner(feed), tolerance)


def _attended(states: States, attended: Array | None) -> list[State]:
    """States where tokens attend to them: everywhere in those of another length than the tokens have."""
    everywhere = [np.ones(value.shape[:2], bool) for _, value in states]
    return [
        State(name, value, attended if attended is not None and attended.shape == value.shape[:2] else everywhere[i])
        for i, (name, value) in enumerate(states)
    ]


def _kept(pair: Pair, call: Call) -> dict[int, list[Kept]]:
    """Layer → what both caches hold of it. The model keeps no more than a window, the export all: the end counts."""
    if pair.model_past is None or not pair.export_past:
        return {}
    model: Any = pair.model
    held = model.kept(pair.model_past)
    found: dict[int, list[Kept]] = {}
    for name, theirs in pair.export_past.items():
        ours = held.get(name)
        if ours is None:
            continue  # another exporter's name
        layer, part = layer_of(name), part_of(name)
        kept = f"cache of layer {layer} ({part})"
        if is_state(name) and ours.shape == theirs.shape:
            found.setdefault(layer, []).append(Kept(kept, ours, theirs, np.ones(ours.shape[:2], bool)))
        elif _comparable(ours, theirs):
            one, other = (_by_position(array, ours.shape[2]) for array in (ours, theirs))
            found.setdefault(layer, []).append(Kept(kept, one, other, _known(pair, call, part, one)))
    return found


def _comparable(ours: Array, theirs: Array) -> bool:
    """Whether both are `[batch, heads, length, width]` and differ in length alone, ours being no longer."""
    same = ours.ndim == theirs.ndim == 4 and ours.shape[:2] == theirs.shape[:2] and ours.shape[3] == theirs.shape[3]
    return same and 0 < ours.shape[2] <= theirs.shape[2]


def _by_position(array: Array, length: int) -> Array:
    """`[batch, heads, …, width]` as `[batch, length, heads, width]`, the last `length` positions."""
    return np.moveaxis(array[:, :, array.shape[2] - length :], 1, 2).astype(np.float32)


def _known(pair: Pair, call: Call, part: str, kept: Array) -> Array:
    """Which positions `[batch, length]` of a cache are attended to."""
    mask = call.mask[:, : -call.ids.shape[1]]
    if part.startswith("encoder"):
        mask = (pair.trail.encoded or {}).get(MASK, np.ones(kept.shape[:2], np.int64))
    known = mask[:, mask.shape[1] - kept.shape[1] :].astype(bool)
    return known if known.shape == kept.shape[:2] else np.ones(kept.shape[:2], bool)


def _in_order(states: list[State], kept: dict[int, list[Kept]]) -> list[State | Kept]:
    """What a layer has kept before what it gives: the embedding is `states[0]`, layer N is `states[N + 1]`."""

    def ordered() -> Iterator[State | Kept]:
        for number, state in enumerate(states):
            yield from kept.get(number - 1, [])
            yield state

    return list(ordered())
