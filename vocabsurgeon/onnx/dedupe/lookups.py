"""Which tables a graph's inputs look rows up in, read from the nodes alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_LOOKUPS = ("Gather", "GatherBlockQuantized")
"""Operators that take a table and row numbers."""
_IDS_PASS = frozenset({"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Expand", "Transpose"})
"""Operators that hand row numbers on unchanged."""
_TABLE_PASSES = frozenset({"Cast", "Identity", "DequantizeLinear"})
"""Operators that hand a table on with its shape."""


def rows_looked_up(model: onnx.ModelProto) -> Mapping[str, int]:
    """Input name → rows of the smallest table it is used on as row numbers, in the main graph."""
    shapes = {entry.name: tuple(entry.dims) for entry in model.graph.initializer}
    origin = {value.name: value.name for value in model.graph.input}
    found: dict[str, int] = {}
    for node in model.graph.node:
        first = node.input[0] if node.input else ""
        if node.op_type in _IDS_PASS and first in origin:
            origin[node.output[0]] = origin[first]
        if node.op_type in _TABLE_PASSES and first in shapes:
            shapes[node.output[0]] = shapes[first]
        if node.op_type in _LOOKUPS and _axis(node) == 0 and shapes.get(first) and node.input[1] in origin:
            source, rows = origin[node.input[1]], shapes[first][0]
            found[source] = min(rows, found.get(source, rows))
    return found


def _axis(node: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name in ("axis", "gather_axis")), 0)
