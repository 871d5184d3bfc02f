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
    import onnx_ir as ir
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    ClearMetadataAndDocStringPass()(model)
    graph = model.graph
    outer = [*graph.inputs, *graph.outputs, *graph.initializers.values()]
    for value in outer:
        _strip_value(value)
    kept = set(map(id, outer))
    for node in graph.all_nodes():
        for attribute in node.attributes.values():
            if attribute.name == "value" and isinstance(attribute.value, ir.TensorProtocol):
                attribute.value.metadata_props.clear()
        for value in node.outputs:
            _strip_value(value)
            if id(value) not in kept:
                value.shape, value.type = None, None
    model.producer_name, model.producer_version = PRODUCER, None
    graph.name = "decoder"


def _strip_value(value: ir.Value) -> None:
    value.metadata_props.clear()
    value.doc_string = None
    if value.const_value is not None:
        value.const_value.metadata_props.clear()
        value.const_value.doc_string = None
