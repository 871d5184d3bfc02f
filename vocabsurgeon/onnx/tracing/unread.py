"""Which inputs a graph takes and does not read: what a model's own code drops, no comparison of small numbers shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir

_READ = {"Shape": 0, "Size": 0, "CastLike": 1}
"""How many of its inputs an operator reads the numbers of, where not of all: of the others it reads sizes or types."""


def unread(model: onnx_ir.Model, names: Sequence[str]) -> list[str]:
    """Those of `names` whose numbers no output depends on."""
    read: set[onnx_ir.Value] = set()
    left = list(model.graph.outputs)
    while left:
        value = left.pop()
        if value in read:
            continue
        read.add(value)
        node = value.producer()
        if node is not None:
            left += [needed for needed in node.inputs[: _READ.get(node.op_type)] if needed is not None]
            left += [needed for graph in _bodies(node) for needed in _from_outside(graph)]
    reached = {value.name for value in read}
    return [name for name in names if name not in reached]


def _bodies(node: onnx_ir.Node) -> list[onnx_ir.Graph]:
    """The graphs of a loop or a branch."""
    return [attribute.as_graph() for attribute in node.attributes.values() if attribute.type.name == "GRAPH"]


def _from_outside(graph: onnx_ir.Graph) -> list[onnx_ir.Value]:
    """Every value that the nodes of a body read; those of the body itself lead nowhere else."""
    return [needed for node in graph.all_nodes() for needed in node.inputs if needed is not None]
