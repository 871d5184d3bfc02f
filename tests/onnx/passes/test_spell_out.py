"""`spell_out` replaces tables that a rule gives, keeps what none gives and parameters, and changes no result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.passes.graphs import graph, run
from vocabsurgeon.onnx.passes.spell_out import spell_out

TEXT = """g (float[4] x, int64[1, 300] up, float[20, 20] same, float[20, 20] other)
    => (int64[1, 300] a, float[20, 20] b, float[20, 20] c) {
    a = Identity(up)  b = Identity(same)  c = Identity(other) }"""


def weights() -> dict[str, np.ndarray]:
    return {
        "up": np.arange(7, 307).reshape(1, 300),
        "same": np.full((20, 20), 2.5, np.float32),
        "other": np.arange(400, dtype=np.float32).reshape(20, 20),
    }


def test_positions_and_constants_become_their_rule_with_the_same_numbers() -> None:
    model = graph(TEXT, **weights())
    before = run(model, x=np.zeros(4, np.float32))
    assert spell_out(model, (), 1024) == 2
    assert list(model.graph.initializers) == ["other"]
    for old, new in zip(before, run(model, x=np.zeros(4, np.float32)), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("kept", ["up", "same"])
def test_parameters_stay(kept: str) -> None:
    model = graph(TEXT, **weights())
    spell_out(model, (kept,), 1024)
    assert kept in model.graph.initializers


def test_small_ones_and_a_second_run_change_nothing() -> None:
    model = graph(TEXT, **weights())
    assert spell_out(model, (), 10_000) == 0
    spell_out(model, (), 1024)
    assert spell_out(model, (), 1024) == 0
