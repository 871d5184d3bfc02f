"""How a node that read a table's transpose reads the table itself: `Gemm(transB=1)`, or onnxruntime's `FusedMatMul`.

What is no product is left alone: whoever rewrites the graph gives it a `Transpose` of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.onnx.dedupe.scope import Scope
from vocabsurgeon.onnx.tensors import StoredTensor

if TYPE_CHECKING:
    import onnx

PORTABLE, ONNXRUNTIME = "onnx", "ort"
TARGETS = (PORTABLE, ONNXRUNTIME)
MICROSOFT = "com.microsoft"
_FLAGS = {("", "Gemm"): ("transA", "transB"), (MICROSOFT, "FusedMatMul"): ("transA", "transB")}
"""Operators that take a table either way, by a flag for each of their first two inputs."""
_GEMM_TYPES = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")
_FUSED_TYPES = ("FLOAT", "FLOAT16")
_RESHAPE_KEEPS_ZERO = 14
"""The opset from which `Reshape(allowzero=1)` lets an empty sequence through."""
_SHAPE_TAKES_PART = 15
"""The opset from which `Shape` has `start` and `end`."""


def read_turned(scope: Scope, name: str, table: str, upright: StoredTensor) -> list[str]:
    """Let the products in `scope` that read `name`, the transpose of `table`, read `table`; return the forms used.

    `upright`: the table, `[rows, width]`. Nodes that are no products, or that a nested graph holds, still read `name`.
    """
    forms = []
    for node in list(scope.graph.node):
        if name not in node.input:
            continue
        form = _flip(node, name, table) or _product(scope, node, name, table, upright) or _untranspose(node, table)
        if form is not None:
            forms.append(form)
    return forms


def _flip(node: onnx.NodeProto, name: str, table: str) -> str | None:
    """Turn the flag of an operator that has one."""
    import onnx

    flags = _FLAGS.get(_operator(node))
    if flags is None or any(attribute.name.startswith("transBatch") and attribute.i for attribute in node.attribute):
        return None
    flipped = None
    for index, flag in enumerate(flags):
        if index < len(node.input) and node.input[index] == name:
            before = next((attribute.i for attribute in node.attribute if attribute.name == flag), 0)
            kept = [attribute for attribute in node.attribute if attribute.name != flag]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute(flag, 1 - before)])
            node.input[index] = table
            flipped = f"{node.op_type}({flag}={1 - before})"
    return flipped


def _product(scope: Scope, node: onnx.NodeProto, name: str, table: str, upright: StoredTensor) -> str | None:
    """`MatMul(x, tableᵀ)`, whatever the rank of `x`."""
    if _operator(node) != ("", "MatMul") or node.input[0] == name:
        return None
    if scope.target == ONNXRUNTIME and upright.element.name in _FUSED_TYPES:
        return _to_fused(node, table)
    if upright.element.name in _GEMM_TYPES and scope.opset >= _RESHAPE_KEEPS_ZERO:
        return _to_gemm(scope, node, table, upright.shape)
    return None


def _to_fused(node: onnx.NodeProto, table: str) -> str:
    import onnx

    node.domain, node.op_type = MICROSOFT, "FusedMatMul"
    node.input[1] = table
    node.attribute.append(onnx.helper.make_attribute("transB", 1))
    return "FusedMatMul(transB=1)"


def _to_gemm(scope: Scope, node: onnx.NodeProto, table: str, shape: tuple[int, ...]) -> str:
    """`Reshape(Gemm(Reshape(x, [-1, width]), table, transB=1), [*x.shape[:-1], rows])`."""
    from onnx import helper

    rows, width = shape
    source, output = node.input[0], node.output[0]
    made: list[onnx.NodeProto] = []

    def add(op: str, inputs: list[str], label: str, **attributes: Any) -> str:
        value = scope.new_name(f"{output}_{label}")
        made.append(helper.make_node(op, inputs, [value], name=value, **attributes))
        return value

    def integers(values: list[int], label: str) -> str:
        return add("Constant", [], label, value=_tensor(values))

    flat = add("Reshape", [source, integers([-1, width], "flat_shape")], "flat")
    product = add("Gemm", [flat, table], "rows", transB=1)
    if scope.opset >= _SHAPE_TAKES_PART:
        leading = add("Shape", [source], "leading", start=0, end=-1)
    else:
        whole = add("Shape", [source], "whole")
        leading = add("Slice", [whole, integers([0], "start"), integers([-1], "end")], "leading")
    target = add("Concat", [leading, integers([rows], "width")], "shape", axis=0)
    made.append(helper.make_node("Reshape", [product, target], [output], name=node.name, allowzero=1))
    scope.replace(node, made)
    return "Gemm(transB=1)"


def _untranspose(node: onnx.NodeProto, table: str) -> str | None:
    """A `Transpose` of the transpose is the table."""
    if _operator(node) != ("", "Transpose"):
        return None
    orders = [list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"]
    if orders not in ([], [[1, 0]]):
        return None
    del node.attribute[:]
    node.op_type = "Identity"
    node.input[0] = table
    return "Identity"


def _operator(node: onnx.NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _tensor(values: list[int]) -> onnx.TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array(values, np.int64))
