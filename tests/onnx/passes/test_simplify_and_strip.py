"""`simplify` folds constants but no parameter; `strip` leaves nothing that a runtime does not need; names are set."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.onnx.handmade import table
from tests.onnx.passes.graphs import graph, operators, run, stored
from vocabsurgeon.onnx.passes.interface import name_interface, unprefix
from vocabsurgeon.onnx.passes.simplify import simplify
from vocabsurgeon.onnx.passes.strip import strip

TEXT = """g (float[b, 10] x, float[24, 10] w, float[10, 10] k) => (float[b, 24] y) {
    t = Transpose <perm = [1, 0]> (w)  j = Add(k, k)  unused = Mul(k, k)  h = MatMul(x, j)  y = MatMul(h, t) }"""


def test_constants_are_folded_and_parameters_are_not() -> None:
    model = graph(TEXT, w=table(), k=table(10, 10, 1))
    before = run(model, x=table())
    simplify(model, {"w"})
    assert operators(model).count("Transpose") == 1
    assert "Add" not in operators(model)
    assert "Mul" not in operators(model)
    assert (24, 10) in stored(model).values()
    np.testing.assert_allclose(run(model, x=table())[0], before[0], rtol=1e-4, atol=1e-5)


def test_traces_and_inner_shapes_go_and_results_stay() -> None:
    model = graph(TEXT, w=table(), k=table(10, 10, 1))
    for node in model.graph:
        node.metadata_props["pkg.torch.onnx.stack_trace"] = "File ..., line 1"
        node.doc_string = "why"
        node.outputs[0].shape = node.outputs[0].shape or ir.Shape(["b", None])
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props["pkg.torch.onnx.stack_trace"] = "File ..., line 1"
        if value.const_value is not None:
            value.const_value.metadata_props["pkg.torch.onnx.stack_trace"] = "File ..., line 1"
    before = run(model, x=table())
    strip(model)
    proto = ir.to_proto(model)
    assert b"stack_trace" not in proto.SerializeToString()
    assert {value.name for value in proto.graph.value_info} <= {"w", "k"}
    assert not any(node.doc_string or node.metadata_props for node in proto.graph.node)
    np.testing.assert_array_equal(run(model, x=table())[0], before[0])


def test_the_interface_gets_its_names() -> None:
    model = graph(TEXT, w=table(), k=table(10, 10, 1))
    model.graph.initializers["w"].name = "model.w"
    unprefix(model, "model.")
    name_interface(model, {"hidden": ["batch", 10]}, {"logits": ["batch", 24]})
    proto = ir.to_proto(model).graph
    assert [value.name for value in (*proto.input, *proto.output)] == ["hidden", "logits"]
    assert proto.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {tensor.name for tensor in proto.initializer} == {"w", "k"}
    assert run(model, hidden=table())[0].shape == (24, 24)
