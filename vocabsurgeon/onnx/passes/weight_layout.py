"""How a graph reads a weight that a product needs transposed: one table on disk, one in memory where it has two roles.

A weight with one role is stored the way its `MatMul` reads it, `[in, out]`, as every exporter does. A table with two
roles (token lookup and LM head) stays `[rows, width]`, and the product becomes `Gemm(transB=1)` of a `Reshape` of the
table to its own shape: standard ONNX, and the session's options decide what happens. By default the session folds the
`Reshape` and packs the result: one more copy, as with the `Transpose` + `MatMul` of other exporters. Where it may not
fold so large a result (`presets`), the `Reshape` only renames the mapped table, and is no constant to be packed, while
all other weights are. A `Gemm` on the table itself would need packing off for every weight (docs/onnx-memory.md).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir


def lay_out_weights(model: ir.Model, common: Collection[int] = ()) -> None:
    """Remove every `Transpose` of an initializer from `model`, in place: by storing it turned, or by `Gemm(transB=1)`.

    `common`: `id`s of tensors that other graphs read too, which keep their layout. A `Transpose` that something else
    than a product reads is left alone where the initializer has another role.
    """
    for value in list(model.graph.initializers.values()):
        turned = [node for node in value.consumers() if _is_transpose(node)]
        if turned and len(turned) == len(value.uses()) and id(value.const_value) not in common:
            _store_turned(value, turned)
        else:
            for node in turned:
                _multiply_by_table(model.graph, value, node)


def _is_transpose(node: ir.Node) -> bool:
    return node.op_type == "Transpose" and node.domain == "" and _permutation(node) == [1, 0]


def _permutation(node: ir.Node) -> list[int]:
    attribute = node.attributes.get("perm")
    return [1, 0] if attribute is None else list(attribute.as_ints())


def _store_turned(value: ir.Value, turned: list[ir.Node]) -> None:
    """Give the initializer its transposed content, made when it is written and not kept."""
    import onnx_ir as ir

    tensor, graph = value.const_value, turned[0].graph
    assert tensor is not None and graph is not None
    rows, columns = tensor.shape.numpy()
    shape = ir.Shape([columns, rows])
    value.const_value = ir.LazyTensor(
        lambda: ir.tensor(np.ascontiguousarray(tensor.numpy().T), dtype=tensor.dtype, name=value.name),
        dtype=tensor.dtype,
        shape=shape,
        name=value.name,
    )
    value.shape = shape
    for node in turned:
        ir.convenience.replace_all_uses_with(node.outputs[0], value)
        graph.remove(node, safe=True)


def _multiply_by_table(graph: ir.Graph, table: ir.Value, transpose: ir.Node) -> None:
    """Turn each `MatMul` by the transposed table into a `Gemm` by the table; drop an unused `Transpose`."""
    result = transpose.outputs[0]
    products = [node for node in result.consumers() if _is_product_by(result, node)]
    if products:
        view = _view(graph, table, before=transpose)
        for node in products:
            _to_gemm(graph, view, node)
    if not result.uses() and not result.is_graph_output():
        graph.remove(transpose, safe=True)


def _is_product_by(table: ir.Value, node: ir.Node) -> bool:
    return node.op_type == "MatMul" and node.inputs[1] is table and node.inputs[0] is not table


def _view(graph: ir.Graph, table: ir.Value, before: ir.Node) -> ir.Value:
    """The table under another name, for products alone."""
    import onnx_ir as ir

    shape = _integers(_size(table))
    view = ir.node("Reshape", [table, shape.outputs[0]])
    view.outputs[0].type, view.outputs[0].shape = table.type, table.shape
    graph.insert_before(before, [shape, view])
    return view.outputs[0]


def _size(table: ir.Value) -> list[int]:
    assert table.shape is not None
    return [int(size) for size in table.shape.numpy()]


def _integers(values: list[int]) -> ir.Node:
    import onnx_ir as ir

    return ir.node("Constant", [], {"value": ir.tensor(np.array(values, np.int64))})


def _to_gemm(graph: ir.Graph, table: ir.Value, product: ir.Node) -> None:
    """`MatMul(x [..., D], tableᵀ)` → `Reshape(Gemm(Reshape(x, [-1, D]), table, transB=1), [*x.shape[:-1], V])`."""
    import onnx_ir as ir

    rows, width = _size(table)
    name = product.outputs[0].name
    flat_shape, rows_shape = _integers([-1, width]), _integers([rows])
    flat = ir.node("Reshape", [product.inputs[0], flat_shape.outputs[0]])
    gemm = ir.node("Gemm", [flat.outputs[0], table], {"transB": 1})
    leading = ir.node("Shape", [product.inputs[0]], {"start": 0, "end": -1})
    shape = ir.node("Concat", [leading.outputs[0], rows_shape.outputs[0]], {"axis": 0})
    result = ir.node("Reshape", [gemm.outputs[0], shape.outputs[0]], {"allowzero": 1})
    output = product.outputs[0]
    result.outputs[0].type, result.outputs[0].shape = output.type, output.shape
    graph.insert_before(product, [flat_shape, rows_shape, flat, gemm, leading, shape, result])
    ir.convenience.replace_all_uses_with(output, result.outputs[0], replace_graph_outputs=True)
    graph.remove(product, safe=True)
    result.outputs[0].name = name
