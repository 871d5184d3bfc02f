"""Tables that a rule spells out shorter, positions 0, 1, 2, … or one value throughout, become the rule."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir


def spell_out(model: ir.Model, parameters: Collection[str], above: int) -> int:
    """Turn every initializer of `model` of at least `above` bytes that is not in `parameters` and counts up by one, or
    holds one value, into `Range` or `ConstantOfShape`, in place; return how many. Shapes and types stay."""
    import onnx_ir as ir

    graph, spelled = model.graph, 0
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or name in parameters or tensor.nbytes < above or value.is_graph_output():
            continue
        nodes = _rule(tensor.numpy())
        if not nodes:
            continue
        result = nodes[-1].outputs[0]
        result.dtype, result.shape = tensor.dtype, value.shape
        ir.convenience.replace_all_uses_with(value, result)
        del graph.initializers[name]
        result.name = name
        graph.insert_before(graph[0], nodes)
        spelled += 1
    return spelled


def _rule(array: np.ndarray[Any, Any]) -> list[ir.Node]:
    """Nodes that give `array`, the last of them; none where no rule fits."""
    flat = array.reshape(-1)
    if not flat.size or flat.dtype.kind not in "iufb":
        return []
    if not np.isnan(flat[0]) and (flat == flat[0]).all():
        return _constant(array)
    if flat.dtype in (np.int64, np.int32) and (np.diff(flat) == 1).all():
        return _range(array)
    return []


def _constant(array: np.ndarray[Any, Any]) -> list[ir.Node]:
    import onnx_ir as ir

    shape = _literal(np.array(array.shape, np.int64))
    value = ir.tensor(array.reshape(-1)[:1])
    return [shape, ir.node("ConstantOfShape", [shape.outputs[0]], {"value": value})]


def _range(array: np.ndarray[Any, Any]) -> list[ir.Node]:
    import onnx_ir as ir

    flat = array.reshape(-1)
    bounds = [_literal(np.array(number, flat.dtype)) for number in (flat[0], flat[-1] + 1, 1)]
    counted = ir.node("Range", [bound.outputs[0] for bound in bounds])
    shape = _literal(np.array(array.shape, np.int64))
    return [*bounds, counted, shape, ir.node("Reshape", [counted.outputs[0], shape.outputs[0]])]


def _literal(array: np.ndarray[Any, Any]) -> ir.Node:
    import onnx_ir as ir

    return ir.node("Constant", [], {"value": ir.tensor(array)})
