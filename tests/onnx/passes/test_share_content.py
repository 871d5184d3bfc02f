"""`share_content` stores one content once, equal or transposed, and merges nothing that differs in a bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.handmade import table
from tests.onnx.passes.graphs import Array, graph, operators, run, stored
from vocabsurgeon.onnx.passes.share_content import share_content

SUM = "g (float[b, 10] x, float[24, 10] u, float[24, 10] v) => (float[24, 10] y) { y = Add(u, v) }"
TURNED = "g (float[b, 10] x, float[24, 10] u, float[10, 24] v) => (float[24, 24] y) { y = MatMul(u, v) }"


def test_equal_weights_become_one() -> None:
    model = graph(SUM, u=table(), v=table())
    before = run(model, x=table())
    assert share_content(model) == 1
    assert stored(model) == {"u": (24, 10)}
    np.testing.assert_array_equal(run(model, x=table())[0], before[0])


def test_a_transposed_weight_becomes_a_transpose_of_the_other() -> None:
    model = graph(TURNED, u=table(), v=table().T.copy())
    before = run(model, x=table())
    assert share_content(model) == 1
    assert (operators(model), stored(model)) == (["Transpose", "MatMul"], {"u": (24, 10)})
    np.testing.assert_allclose(run(model, x=table())[0], before[0], rtol=1e-5)


def negative_zero() -> Array:
    array = table()
    array[5, 5] = 0.0
    return array


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("change", ["bit", "sign of zero", "type"])
def test_what_differs_stays_two(change: str, turned: bool) -> None:
    first, second = negative_zero(), negative_zero()
    if change == "bit":
        second.view(np.uint32)[3, 7] ^= 1
    elif change == "sign of zero":
        second[5, 5] = -0.0
    else:
        second = second.view(np.int32)
    text = TURNED if turned else SUM
    model = graph(text, u=first, v=second.T.copy() if turned else second)
    assert share_content(model) == 0
    assert len(stored(model)) == 2


def test_nothing_is_shared_twice() -> None:
    model = graph(SUM, u=table(), v=table())
    share_content(model)
    assert share_content(model) == 0
