"""Inputs made up for a graph that nobody described: ids below the table's rows, masks of ones, an empty or short past.

What an input means is guessed from its name, its dimensions' names and the tables it looks rows up in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Dimensions = Sequence[int | str | None]
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}
"""onnxruntime's names of the types that inputs are made in."""


@dataclass(frozen=True)
class Input:
    """A graph input as the runtime states it. `rows`: of the smallest table it looks rows up in, None for none."""

    name: str
    kind: str
    dimensions: Dimensions
    rows: int | None


@dataclass(frozen=True)
class Sizes:
    """Sizes of the dimensions that a graph leaves open."""

    batch: int
    sequence: int
    past: int
    head: int | None = None
    """Numbers of one attention head, None where nothing tells."""


def feeds(
    inputs: Sequence[Input], texts: Sequence[Sequence[int]], head: int | None = None
) -> dict[str, dict[str, Array]]:
    """What a graph with these inputs is run on: a batch, one step after a short past, and each of `texts` (token ids).

    `head`: width of an attention head, for graphs that leave it open. Empty where an input has a type that cannot be
    made.
    """
    has_past = any(_is_past(entry.name) for entry in inputs)
    step = Sizes(1, 1, 5 if has_past else 0, head)
    checks: dict[str, tuple[Sizes, Sequence[int] | None]] = {"random ids": (Sizes(2, 7, 0, head), None)}
    checks["one step"] = (step, None)
    if any(entry.name == "input_ids" for entry in inputs):
        checks |= {f"text {number}": (Sizes(1, len(ids), 0, head), ids) for number, ids in enumerate(texts)}
    made = {check: feed(inputs, sizes, seed, ids) for seed, (check, (sizes, ids)) in enumerate(checks.items())}
    return {check: inputs for check, inputs in made.items() if inputs is not None}


def feed(inputs: Sequence[Input], sizes: Sizes, seed: int, ids: Sequence[int] | None = None) -> dict[str, Array] | None:
    """Name → array for every input; None where an input's type cannot be made. Same arguments, same arrays.

    `ids` are the token ids of a text, given to `input_ids` where that input takes them.
    """
    if any(entry.kind not in TYPES for entry in inputs):
        return None
    random = np.random.default_rng(seed)
    named: dict[str, int] = {}
    made: dict[str, Array] = {}
    for entry in inputs:
        shape = tuple(_size(entry, axis, sizes, named) for axis in range(len(entry.dimensions)))
        value = _value(entry, shape, sizes, random)
        if ids is not None and entry.name == "input_ids":
            value = np.resize(np.array(ids, np.int64) % (entry.rows or np.iinfo(np.int64).max), shape)
        made[entry.name] = value.astype(TYPES[entry.kind])
    return made


def _size(entry: Input, axis: int, sizes: Sizes, named: dict[str, int]) -> int:
    """The size of one dimension: as stated, as its name says, or as the input's own name suggests."""
    stated = entry.dimensions[axis]
    if isinstance(stated, int) or (stated is not None and stated.isdigit()):
        return int(stated)
    if stated is not None and "+" in stated:
        parts = [part.strip() for part in stated.split("+")]
        return sum(int(part) if part.isdigit() else _by_name(part, sizes) or sizes.sequence for part in parts)
    known = None if stated is None else _by_name(stated, sizes)
    if known is not None:
        return known
    size = _by_role(entry.name, axis, sizes)
    return size if stated is None else named.setdefault(stated, size)


def _by_name(dimension: str, sizes: Sizes) -> int | None:
    words = (
        ("batch", sizes.batch),
        ("past", sizes.past),
        ("total", sizes.past + sizes.sequence),
        ("seq", sizes.sequence),
    )
    return next((size for word, size in words if word in dimension.lower()), None)


def _by_role(name: str, axis: int, sizes: Sizes) -> int:
    if axis == 0:
        return sizes.sequence if name == "cache_position" else sizes.batch
    if _is_past(name):
        return sizes.head if axis == 3 and sizes.head else sizes.past
    return sizes.past + sizes.sequence if "mask" in name and "encoder" not in name else sizes.sequence


def _is_past(name: str) -> bool:
    return any(word in name for word in ("past", "cache.", "cache_"))


Make = Callable[[Input, tuple[int, ...], Sizes, np.random.Generator], Array]


def _value(entry: Input, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    make = next((make for word, make in _BY_WORD.items() if word in entry.name), None)
    if make is None:
        floating = np.issubdtype(TYPES[entry.kind], np.floating)
        make = _numbers if floating else _flag if entry.kind == "tensor(bool)" else _ids
    return make(entry, shape, sizes, random)


def _ones(entry: Input, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    return np.ones(shape)


def _counted(entry: Input, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    """Positions that go on after the past, in the last dimension."""
    width = shape[-1] if shape else 1
    return np.broadcast_to(sizes.past + np.arange(width), shape)


def _ids(entry: Input, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    """Rows of the table that the input looks up; without one, zeros and ones."""
    return random.integers(0, entry.rows or 2, shape)


def _numbers(entry: Input, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    return random.standard_normal(shape)


def _flag(entry: Input, shape: tuple[int, ...], sizes: Sizes, random: np.random.Generator) -> Array:
    return np.full(shape, sizes.past > 0)


_BY_WORD: Mapping[str, Make] = {"mask": _ones, "position": _counted}
