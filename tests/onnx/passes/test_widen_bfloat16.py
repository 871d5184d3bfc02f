"""`widen_bfloat16` makes a graph that the CPU cannot run runnable, with the roundings bfloat16 has."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.onnx.handmade import table
from tests.onnx.passes.graphs import graph, operators, run
from vocabsurgeon.onnx.passes.widen_bfloat16 import widen_bfloat16

TEXT = """g (float[24, 10] x) => (float[24, 10] y) <bfloat16[24, 10] n, bfloat16[24, 10] m, bfloat16[24, 10] k> {
    n = Cast <to = 16> (x)  m = Mul(n, n)  k = Add(m, n)  y = Cast <to = 1> (k) }"""


def test_the_result_has_bfloat16_roundings() -> None:
    model = graph(TEXT)
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        run(model, x=table())
    assert widen_bfloat16(model) == 2
    narrow = table().astype(ml_dtypes.bfloat16)
    expected = (narrow * narrow + narrow).astype(np.float32)
    np.testing.assert_array_equal(run(model, x=table())[0], expected)


def test_other_types_are_left_alone() -> None:
    model = graph("g (float[24, 10] x) => (float[24, 10] y) { h = Mul(x, x)  y = Add(h, x) }")
    assert widen_bfloat16(model) == 0
    assert operators(model) == ["Mul", "Add"]
