"""Let a runtime without bfloat16 kernels run the few bfloat16 operators that a model spells out (Falcon's ALiBi)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def widen_bfloat16(model: ir.Model) -> int:
    """Compute every bfloat16 operator of `model` but `Cast` in float32, in place, its result rounded to bfloat16 again.

    One operator in float32 and one rounding is what bfloat16 arithmetic means, so no result changes. Needs the types of
    inner values, so it runs before `strip`. Returns how many operators were widened.
    """
    import onnx_ir as ir

    narrow = ir.DataType.BFLOAT16
    widened = 0
    for node in list(model.graph):
        if node.op_type == "Cast" or not any(value.dtype == narrow for value in node.outputs):
            continue
        widened += 1
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype == narrow:
                cast = _cast(value, ir.DataType.FLOAT)
                model.graph.insert_before(node, cast)
                node.replace_input_with(index, cast.outputs[0])
        for value in node.outputs:
            if value.dtype == narrow:
                _round_again(model.graph, node, value)
    return widened


def _round_again(graph: ir.Graph, node: ir.Node, value: ir.Value) -> None:
    import onnx_ir as ir

    uses = list(value.uses())
    value.dtype = ir.DataType.FLOAT
    cast = _cast(value, ir.DataType.BFLOAT16)
    graph.insert_after(node, cast)
    for use in uses:
        use.node.replace_input_with(use.idx, cast.outputs[0])


def _cast(value: ir.Value, to: ir.DataType) -> ir.Node:
    import onnx_ir as ir

    node = ir.node("Cast", [value], {"to": to})
    node.outputs[0].dtype, node.outputs[0].shape = to, value.shape
    return node
