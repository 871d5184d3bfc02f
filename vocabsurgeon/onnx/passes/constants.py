"""Shapes, axes and scalars that the exporter lifted to initializers go back into the graph as constants."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def inline_constants(model: ir.Model, parameters: Collection[str], below: int) -> None:
    """Turn every initializer of `model` under `below` bytes that is not in `parameters` into a `Constant`, in place.

    What is left as an initializer is a weight, so that the data file holds weights and nothing else.
    """
    import onnx_ir as ir

    graph = model.graph
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or name in parameters or tensor.nbytes >= below or value.is_graph_output():
            continue
        constant = ir.node("Constant", [], {"value": tensor})
        constant.outputs[0].dtype, constant.outputs[0].shape = tensor.dtype, value.shape
        ir.convenience.replace_all_uses_with(value, constant.outputs[0])
        del graph.initializers[name]
        constant.outputs[0].name = name
        if len(graph):
            graph.insert_before(graph[0], constant)
