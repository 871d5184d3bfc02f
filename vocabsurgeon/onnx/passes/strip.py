"""Remove what only the exporter's authors read: stack traces, doc strings, shapes of inner values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

PRODUCER = "vocabsurgeon"


def strip(model: ir.Model) -> None:
    """Leave operators, names, types of inputs and outputs, and weights; take everything else out of `model`, in place.

    Runtimes infer the shapes of inner values themselves. Names are kept: they tell where a value comes from.
    """
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    ClearMetadataAndDocStringPass()(model)
    graph = model.graph
    outer = {id(value) for value in (*graph.inputs, *graph.outputs, *graph.initializers.values())}
    for node in graph.all_nodes():
        for value in node.outputs:
            if id(value) not in outer and node.graph is graph:
                value.shape, value.type = None, None
    model.producer_name, model.producer_version = PRODUCER, None
    graph.name = "decoder"
