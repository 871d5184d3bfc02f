"""Initializers of one content become one: equal ones merge, a transposed one becomes a `Transpose` of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

SMALLEST = 256
"""Fewer bytes are not worth a comparison; they become constants of the graph."""


def share_content(model: ir.Model) -> int:
    """Make every initializer of `model` that repeats an earlier one's numbers use that one, in place; return how many.

    Numbers are compared as bits, in the type they are stored in. Runs in memory, on tensors that share it with the
    model. Square matrices that equal their own transpose are equal. Nothing changes where all contents differ.
    """
    groups: dict[tuple[Any, ...], list[ir.Value]] = {}
    shared = 0
    for value in _large(model.graph):
        seen = groups.setdefault(_key(value), [])
        first = next((other for other in seen if _merge(model.graph, other, value)), None)
        if first is None:
            seen.append(value)
        else:
            shared += 1
    return shared


def _large(graph: ir.Graph) -> Iterator[ir.Value]:
    for value in list(graph.initializers.values()):
        if value.const_value is not None and value.const_value.nbytes >= SMALLEST and not value.is_graph_output():
            yield value


def _key(value: ir.Value) -> tuple[Any, ...]:
    """Type, shape and a grid of elements, the same for a matrix and its transpose."""
    array = grid = bits(value)
    for axis in range(array.ndim):
        grid = grid.take(np.linspace(0, array.shape[axis] - 1, 8).astype(np.int64), axis)
    if array.ndim != 2:
        return value.dtype, array.shape, grid.tobytes()
    return value.dtype, tuple(sorted(array.shape)), min(grid.tobytes(), grid.T.tobytes())


def _merge(graph: ir.Graph, first: ir.Value, second: ir.Value) -> bool:
    """Let `second`'s readers read `first`, directly or transposed; False where the contents differ."""
    import onnx_ir as ir

    a, b = bits(first), bits(second)
    if a.shape == b.shape and np.array_equal(a, b):
        replacement = first
    elif a.ndim == 2 and a.shape == b.shape[::-1] and np.array_equal(a, b.T):
        node = ir.node("Transpose", [first], {"perm": [1, 0]})
        graph.insert_before(graph[0], node)
        replacement = node.outputs[0]
        replacement.type, replacement.shape = second.type, second.shape
    else:
        return False
    ir.convenience.replace_all_uses_with(second, replacement)
    del graph.initializers[second.name or ""]
    return True


def bits(value: ir.Value) -> np.ndarray[Any, Any]:
    """The initializer's numbers as unsigned integers of their width, so that a NaN equals itself."""
    assert value.const_value is not None
    array = value.const_value.numpy()
    return array.view(np.dtype(f"u{array.dtype.itemsize}")) if array.dtype != np.bool_ else array
