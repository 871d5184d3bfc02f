"""What a session would fold into a second copy of a table when it loads is read as it lies instead. In place.

Nothing on disk changes by that. A float32 table that is looked up and multiplied by is turned for neither; a quantized
one that is read in two shapes has two initializers over one place. Other types are converted by the session anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from vocabsurgeon.onnx.dedupe.products import as_factor, is_looked_up, is_product, is_transpose_of, read_turned
from vocabsurgeon.onnx.dedupe.scope import Scope
from vocabsurgeon.onnx.dedupe.slim import refer, reference_of
from vocabsurgeon.onnx.tensors import StoredTensor

if TYPE_CHECKING:
    import onnx


def unfold(scope: Scope, entry: onnx.TensorProto, tensor: StoredTensor) -> list[str]:
    """Change how `scope` reads its initializer `entry`, which is `tensor`; return the new forms, none for no change."""
    if not tensor.element.floating:
        return _second_views(scope, entry)
    if tensor.element.name != "FLOAT" or len(tensor.shape) != 2:
        return []
    turn = _read_upright if is_looked_up(scope, entry.name) else _look_up_columns
    return [
        form
        for place in scope.reaching(entry.name)
        for node in list(place.graph.node)
        if is_transpose_of(entry.name, node)
        for form in turn(place, entry.name, node, tensor)
    ]


def _read_upright(scope: Scope, table: str, transpose: onnx.NodeProto, tensor: StoredTensor) -> list[str]:
    """Products with the transpose of a table that is looked up read the table."""
    forms = read_turned(scope, transpose.output[0], table, tensor)
    if not scope.is_read(transpose.output[0]):
        scope.graph.node.remove(transpose)
    return forms


def _look_up_columns(scope: Scope, table: str, transpose: onnx.NodeProto, tensor: StoredTensor) -> list[str]:
    """A table `[width, rows]` that is turned to be looked up gives columns; its products read it as a factor."""
    from onnx import helper

    lookups = [node for node in scope.graph.node if transpose.output[0] in node.input]
    ranks = [_rank(scope.graph, node.input[1]) if _looks_up_rows(node) else None for node in lookups]
    if not lookups or None in ranks or len(scope.readers(transpose.output[0])) != len(lookups):
        return []
    for node, rank in zip(lookups, ranks, strict=True):
        columns = scope.new_name(f"{node.output[0]}_columns")
        gather = helper.make_node("Gather", [table, node.input[1]], [columns], name=columns, axis=1)
        order = [*range(1, (rank or 0) + 1), 0]
        scope.replace(node, [gather, helper.make_node("Transpose", [columns], node.output, name=node.name, perm=order)])
    if transpose.output[0] not in scope.outputs():
        scope.graph.node.remove(transpose)
    factors = [
        node
        for place in scope.home(table).reaching(table)
        for node in place.graph.node
        if is_product(node) and node.input[1] == table
    ]
    for node in factors:
        node.input[1] = as_factor(scope, table, tensor)
    return ["Gather(axis=1)"]


def _looks_up_rows(node: onnx.NodeProto) -> bool:
    return node.op_type == "Gather" and not any(attribute.i for attribute in node.attribute)


def _rank(graph: onnx.GraphProto, name: str) -> int | None:
    """Dimensions of a value that the graph states the shape of."""
    stated = (value.type.tensor_type for value in (*graph.input, *graph.value_info) if value.name == name)
    return next((len(kind.shape.dim) for kind in stated if kind.HasField("shape")), None)


def _second_views(scope: Scope, entry: onnx.TensorProto) -> list[str]:
    """Each `Reshape` of a quantized table to a constant shape becomes an initializer over the same bytes."""
    import onnx

    number = reference_of(entry)
    made = []
    for node in [node for node in scope.graph.node if node.op_type == "Reshape" and node.input[0] == entry.name]:
        shape = _resolved(_constant(scope.graph, node.input[1]), entry.dims)
        if shape is None or number is None or node.output[0] in scope.outputs() or not scope.inputs_are_overridable:
            continue
        scope.graph.node.remove(node)
        scope.drop({node.output[0]})
        view = onnx.TensorProto(name=node.output[0], data_type=entry.data_type, dims=shape)
        view.data_location = onnx.TensorProto.EXTERNAL
        refer(view, number)
        scope.graph.initializer.append(view)
        made.append("a second view of its bytes")
    return made


def _constant(graph: onnx.GraphProto, name: str) -> list[int] | None:
    """The integers that `name` holds, where the graph's own file has them."""
    from onnx import numpy_helper

    held = [entry for entry in graph.initializer if entry.name == name and reference_of(entry) is None]
    given = {value.name for value in graph.input}
    held += [
        attribute.t
        for node in graph.node
        if name in node.output
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    return [int(size) for size in numpy_helper.to_array(held[0]).ravel()] if held and name not in given else None


def _resolved(wanted: Sequence[int] | None, dims: Sequence[int]) -> list[int] | None:
    """The shape that `Reshape` gives, None where it is not stated in full or at all."""
    count = prod(dims)
    if wanted is None or not count or wanted.count(-1) > 1 or any(size < -1 or size == 0 for size in wanted):
        return None
    known = prod(size for size in wanted if size > 0)
    shape = [count // known if size == -1 else size for size in wanted]
    return shape if prod(shape) == count else None
