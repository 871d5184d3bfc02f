"""An input counts as read where an output depends on its numbers, inside a body too; its size and type are none."""

from __future__ import annotations

import pytest

from tests.onnx.passes.graphs import graph
from vocabsurgeon.onnx.tracing.unread import unread

LOOP = """
    agraph (float[2] x, float[2] past) => (float[2] y) {
        n = Constant <value_int: int = 3> ()
        go = Constant <value: tensor = bool {1}> ()
        y = Loop (n, go, x) <body = step (int64 i, bool on, float[2] held) => (bool still, float[2] next) {
            still = Identity(on)
            next = Add(held, past)
        }>
    }
"""


@pytest.mark.parametrize(
    ("body", "forgotten"),
    [
        ("y = Add(x, past)", []),
        ("h = Identity(past) z = Neg(h) y = Add(x, z)", []),
        ("h = Identity(past) y = Neg(x)", ["past"]),
        ("s = Shape(past) y = Reshape(x, s)", ["past"]),
        ("y = CastLike(x, past)", ["past"]),
        ("y = CastLike(past, x)", ["x"]),
        ("s = Shape(x) h = Reshape(past, s) y = Add(x, h)", []),
    ],
)
def test_what_an_output_depends_on(body: str, forgotten: list[str]) -> None:
    model = graph(f"agraph (float[2] x, float[2] past) => (float[2] y) {{ {body} }}")
    assert unread(model, ["x", "past"]) == forgotten


def test_a_body_reads_from_outside() -> None:
    assert unread(graph(LOOP), ["x", "past"]) == []
    assert unread(graph(LOOP.replace("Add(held, past)", "Neg(held)")), ["x", "past"]) == ["past"]
