"""Small onnx_ir models for the passes, written as ONNX text, with weights given as arrays; and what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

Array = np.ndarray[Any, Any]


def graph(text: str, **weights: Array) -> ir.Model:
    """The model whose graph is `text` in ONNX's text format, `weights` being initializers that it reads by name."""
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    by_name = {value.name: value for node in model.graph for value in node.inputs if value is not None}
    for name, array in weights.items():
        value = by_name.get(name) or ir.Value(name=name)
        if value in model.graph.inputs:
            model.graph.inputs.remove(value)
        value.const_value = ir.tensor(array, name=name)
        value.shape, value.type = ir.Shape(array.shape), ir.TensorType(value.const_value.dtype)
        model.graph.register_initializer(value)
    return model


def operators(model: ir.Model) -> list[str]:
    """Operators in graph order."""
    return [node.op_type for node in model.graph]


def stored(model: ir.Model) -> dict[str, tuple[int, ...]]:
    """Initializer → shape of what would be written."""
    values: Mapping[str, Any] = model.graph.initializers
    return {name: value.const_value.numpy().shape for name, value in values.items()}


def run(model: ir.Model, **inputs: Array) -> list[Array]:
    """What onnxruntime computes for it."""
    import onnxruntime

    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, inputs)
    return outputs
