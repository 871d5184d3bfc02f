"""Which tables a graph's inputs look rows up in, read from the nodes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_LOOKUPS = ("Gather", "GatherBlockQuantized")
"""Operators that take a table and row numbers."""
_IDS_PASS = frozenset({"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Expand", "Transpose"})
"""Operators that hand row numbers on unchanged."""
_TABLE_PASSES = frozenset({"Cast", "Identity", "DequantizeLinear", "Reshape", "Transpose"})
"""Operators that hand a table on; a reshape of one is taken to keep its rows."""


def rows_looked_up(model: onnx.ModelProto) -> Mapping[str, int]:
    """Input name → rows of the smallest table it is used on as row numbers, in nested graphs too."""
    graphs = list(_graphs(model.graph))
    shapes = {entry.name: tuple(entry.dims) for graph in graphs for entry in graph.initializer}
    origin = {value.name: value.name for value in model.graph.input}
    found: dict[str, int] = {}
    for node in (node for graph in graphs for node in graph.node):
        first = node.input[0] if node.input else ""
        if node.op_type in _IDS_PASS and first in origin:
            origin[node.output[0]] = origin[first]
        if node.op_type in _TABLE_PASSES and first in shapes:
            shapes[node.output[0]] = _passed_on(node, shapes[first])
        axis, shape = _axis(node), shapes.get(first, ())
        if node.op_type in _LOOKUPS and -len(shape) <= axis < len(shape) and node.input[1] in origin:
            source, rows = origin[node.input[1]], shape[axis]
            found[source] = min(rows, found.get(source, rows))
    return found


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _graphs(inner)


def _passed_on(node: onnx.NodeProto, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The table's shape behind `node`."""
    if node.op_type != "Transpose":
        return shape
    order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), [])
    return tuple(shape[axis] for axis in order) if sorted(order) == list(range(len(shape))) else shape[::-1]


def _axis(node: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name in ("axis", "gather_axis")), 0)
