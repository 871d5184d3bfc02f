"""A tensor that several graphs hold becomes one object, so that one data file holds its bytes once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.onnx.passes.share_content import bits

if TYPE_CHECKING:
    import onnx_ir as ir


def share_across(models: Sequence[ir.Model]) -> frozenset[int]:
    """Let every initializer that an earlier graph holds too (type, shape and bits) refer to that tensor, in place.

    Returns the `id`s of the tensors that more than one graph refers to. Names stay each graph's own.
    """
    seen: dict[tuple[Any, ...], list[tuple[int, ir.Value]]] = {}
    common = set()
    for index, model in enumerate(models):
        for value in model.graph.initializers.values():
            if value.const_value is None:
                continue
            others = seen.setdefault(_key(value), [])
            equal = next((o for i, o in others if i < index and np.array_equal(bits(o), bits(value))), None)
            if equal is None:
                others.append((index, value))
            else:
                value.const_value = equal.const_value
                common.add(id(equal.const_value))
    return frozenset(common)


def _key(value: ir.Value) -> tuple[Any, ...]:
    """Type, shape and the first and last numbers: tells most tensors apart without reading them."""
    array = bits(value).reshape(-1)
    return value.dtype, tuple(value.const_value.shape.numpy()), array[:8].tobytes(), array[-8:].tobytes()  # type: ignore[union-attr]
