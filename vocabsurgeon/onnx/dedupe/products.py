"""How a node that read a table's transpose reads the table itself: `Gemm(transB=1)`, or onnxruntime's `FusedMatMul`.

Products with a table that is looked up as well read it through a `Reshape` to its own shape, which lets the session's
options decide whether it is packed into a second copy (see `passes.weight_layout`). What is no product is left alone:
whoever rewrites the graph gives it a `Transpose` of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.onnx.dedupe.contents import TURNABLE
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
_RESHAPE_TAKES_SHAPE = 5
"""The opset from which `Reshape` has the shape as an input."""
_RESHAPE_KEEPS_ZERO = 14
"""The opset from which `Reshape(allowzero=1)` lets an empty sequence through."""
_SHAPE_TAKES_PART = 15
"""The opset from which `Shape` has `start` and `end`."""


def read_turned(scope: Scope, name: str, table: str, upright: StoredTensor) -> list[str]:
    """Let the products in `scope` that read `name`, the transpose of `table`, read `table`; return the forms used.

    `upright`: the table, `[rows, width]`. Products in nested graphs count too. What is no product still reads `name`.
    """
    found = [
        _flip(place, node, name, table, upright)
        or _product(place, node, name, table, upright)
        or _untranspose(node, table)
        for place in scope.reaching(name, table)
        for node in list(place.graph.node)
        if name in node.input
    ]
    return [form for form in found if form is not None]


def is_looked_up(scope: Scope, table: str) -> bool:
    """Whether something else than products reads `table`, row by row."""
    return any(op not in TURNABLE for op in scope.readers(table))


def is_transpose_of(table: str, node: onnx.NodeProto) -> bool:
    """Whether `node` turns the matrix `table`."""
    return _turns(node) and node.input[0] == table


def as_factor(scope: Scope, table: str, upright: StoredTensor) -> str:
    """The name under which a product reads `table`: a `Reshape` of it where something else than products reads it.

    `upright`: the table as it is stored.
    """
    from onnx import helper

    scope = scope.home(table)
    if table in scope.views or not is_looked_up(scope, table) or scope.opset < _RESHAPE_TAKES_SHAPE:
        return scope.views.get(table, table)
    shape, view = scope.new_name(f"{table}_shape"), scope.new_name(f"{table}_view")
    scope.graph.node.insert(
        0, helper.make_node("Constant", [], [shape], name=shape, value=_tensor(list(upright.shape)))
    )
    scope.graph.node.insert(1, helper.make_node("Reshape", [table, shape], [view], name=view))
    scope.views[table] = view
    return view


def is_product(node: onnx.NodeProto) -> bool:
    """Whether `node` multiplies by its second input."""
    return _operator(node) in _FLAGS or _operator(node) == ("", "MatMul")


def _flip(scope: Scope, node: onnx.NodeProto, name: str, table: str, upright: StoredTensor) -> str | None:
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
            node.input[index] = as_factor(scope, table, upright) if index else table
            flipped = f"{node.op_type}({flag}={1 - before})"
    return flipped


def _product(scope: Scope, node: onnx.NodeProto, name: str, table: str, upright: StoredTensor) -> str | None:
    """`MatMul(x, tableᵀ)`, whatever the rank of `x`."""
    if _operator(node) != ("", "MatMul") or node.input[0] == name:
        return None
    if scope.target == ONNXRUNTIME and upright.element.name in _FUSED_TYPES:
        return _to_fused(node, as_factor(scope, table, upright))
    if upright.element.name in _GEMM_TYPES and scope.opset >= _RESHAPE_KEEPS_ZERO:
        return _to_gemm(scope, node, as_factor(scope, table, upright), upright.shape)
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
    if not _turns(node):
        return None
    del node.attribute[:]
    node.op_type = "Identity"
    node.input[0] = table
    return "Identity"


def _turns(node: onnx.NodeProto) -> bool:
    orders = [list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"]
    return _operator(node) == ("", "Transpose") and orders in ([], [[1, 0]])


def _operator(node: onnx.NodeProto) -> tuple[str, str]:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _tensor(values: list[int]) -> onnx.TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array(values, np.int64))
