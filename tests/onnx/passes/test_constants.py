"""`inline_constants` moves shapes and scalars into the graph and leaves every weight where it is."""

from __future__ import annotations

import numpy as np

from tests.onnx.handmade import table
from tests.onnx.passes.graphs import graph, operators, run, stored
from vocabsurgeon.onnx.passes.constants import inline_constants

TEXT = """g (float[b, 10] x, float[10] w, float[10] big, int64[2] shape) => (float[u, v] y) {
    a = Mul(x, w)  c = Add(a, big)  y = Reshape(c, shape) }"""
WEIGHTS = {"w": table(1, 10)[0], "big": table(1, 10, 1)[0], "shape": np.array([-1, 5])}


def test_small_constants_move_and_parameters_stay() -> None:
    model = graph(TEXT, **WEIGHTS)
    before = run(model, x=table())
    inline_constants(model, {"w"}, below=40)
    assert set(stored(model)) == {"w", "big"}
    assert operators(model) == ["Constant", "Mul", "Add", "Reshape"]
    np.testing.assert_array_equal(run(model, x=table())[0], before[0])


def test_a_second_run_moves_nothing() -> None:
    model = graph(TEXT, **WEIGHTS)
    inline_constants(model, {"w"}, below=40)
    before = operators(model)
    inline_constants(model, {"w"}, below=40)
    assert operators(model) == before
