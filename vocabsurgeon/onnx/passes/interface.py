"""The names a graph shows outside: inputs, outputs, their dimensions, and parameters under their names in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

Shapes = Mapping[str, Sequence[str | int]]


def name_interface(model: ir.Model, inputs: Shapes, outputs: Shapes) -> None:
    """Give the graph's inputs and outputs the names and dimensions of `inputs` and `outputs`, in order, in place."""
    import onnx_ir as ir

    for values, shapes in ((model.graph.inputs, inputs), (model.graph.outputs, outputs)):
        for value, (name, dimensions) in zip(values, shapes.items(), strict=True):
            value.name = name
            value.shape = ir.Shape(list(dimensions))


def unprefix(model: ir.Model, prefix: str) -> None:
    """Take `prefix`, which the tracing wrapper adds, off the initializers' names, in place."""
    graph = model.graph
    for value in list(graph.initializers.values()):
        name = value.name or ""
        if name.startswith(prefix) and name.removeprefix(prefix) not in graph.initializers:
            rename_initializer(graph, value, name.removeprefix(prefix))


def rename_initializer(graph: ir.Graph, value: ir.Value, name: str) -> None:
    """Register `value` of `graph` under `name` instead of its own name."""
    del graph.initializers[value.name or ""]
    value.name = name
    if value.const_value is not None:
        value.const_value.name = name
    graph.initializers[name] = value
