"""`lay_out_weights` leaves no transposed weight to fold, stores none twice, and changes no result."""

from __future__ import annotations

import numpy as np

from tests.onnx.handmade import table
from tests.onnx.passes.graphs import graph, operators, run, stored
from vocabsurgeon.onnx.passes.weight_layout import lay_out_weights

LINEAR = """g (float[b, s, 10] x, float[24, 10] w) => (float[b, s, 24] y) {
    t = Transpose <perm = [1, 0]> (w)  y = MatMul(x, t) }"""
TIED = """g (int64[b, s] ids, float[24, 10] w) => (float[b, s, 24] y) {
    x = Gather(w, ids)  t = Transpose <perm = [1, 0]> (w)  y = MatMul(x, t) }"""
INPUT = np.random.default_rng(1).standard_normal((2, 3, 10), dtype=np.float32)
IDS = np.array([[1, 23, 0], [4, 4, 9]])


def test_a_weight_with_one_role_is_stored_turned() -> None:
    model = graph(LINEAR, w=table())
    before = run(model, x=INPUT)
    lay_out_weights(model)
    assert (operators(model), stored(model)) == (["MatMul"], {"w": (10, 24)})
    np.testing.assert_allclose(run(model, x=INPUT)[0], before[0], rtol=1e-5, atol=1e-6)


def test_a_table_with_two_roles_stays_one_table_and_becomes_a_gemm() -> None:
    model = graph(TIED, w=table())
    before = run(model, ids=IDS)
    lay_out_weights(model)
    assert "Transpose" not in operators(model)
    assert "Gemm" in operators(model)
    assert stored(model) == {"w": (24, 10)}
    np.testing.assert_allclose(run(model, ids=IDS)[0], before[0], rtol=1e-5, atol=1e-6)
    assert run(model, ids=IDS[:, :0])[0].shape == (2, 0, 24)


def test_what_is_laid_out_already_is_left_alone() -> None:
    model = graph(TIED, w=table())
    lay_out_weights(model)
    before = operators(model)
    lay_out_weights(model)
    assert operators(model) == before


def test_transposes_of_values_and_of_other_readers_are_left_alone() -> None:
    text = """g (float[2, 3] x, float[24, 10] w, int64[s] ids) => (float[3, 2] y, float[10, 24] z, float[s, 10] e) {
        y = Transpose <perm = [1, 0]> (x)  e = Gather(w, ids)  t = Transpose <perm = [1, 0]> (w)  z = Relu(t) }"""
    model = graph(text, w=table())
    lay_out_weights(model)
    assert operators(model) == ["Transpose", "Gather", "Transpose", "Relu"]
    assert stored(model) == {"w": (24, 10)}
