"""What a trace takes for granted about lengths is found: such a graph would compute longer texts wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.models.tiny import TINY
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.parts import MODEL, Part
from vocabsurgeon.onnx.signature import BATCH, SEQUENCE, Signature
from vocabsurgeon.onnx.tracing.assumed_lengths import broken_assumption
from vocabsurgeon.onnx.tracing.trace import trace

if TYPE_CHECKING:
    import torch

SIGNATURE = Signature({"x": (BATCH, SEQUENCE)}, {"y": (BATCH, SEQUENCE)})
CHUNK = 64
"""As in the gated delta rule's code: no config value says it."""


def padded(x: torch.Tensor) -> torch.Tensor:
    """`x [batch, length]` as whole chunks `[batch, chunks, 64]`."""
    from torch.nn import functional

    return functional.pad(x, (0, -x.shape[1] % CHUNK)).reshape(x.shape[0], -1, CHUNK)


def by_chunks(x: torch.Tensor) -> torch.Tensor:
    """A running sum of chunk maxima, by a loop over chunks."""
    import torch

    chunks = padded(x)
    before = torch.zeros(x.shape[0])
    rows = []
    for index in range(chunks.shape[1]):
        before = before + chunks[:, index].amax(-1)
        rows.append(chunks[:, index] + before[:, None])
    return torch.stack(rows, 1).flatten(1)[:, : x.shape[1]]


def at_once(x: torch.Tensor) -> torch.Tensor:
    """The same without a loop."""
    chunks = padded(x)
    return (chunks + chunks.amax(-1).cumsum(1)[..., None]).flatten(1)[:, : x.shape[1]]


def program(function: Callable[[Any], Any]) -> torch.export.ExportedProgram:
    """`function` exported on three chunks, for every length: torch takes a size of one for a constant."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = function(x)
            return result

    sizes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return torch.export.export(
        Module(),
        (torch.ones(2, 2 * CHUNK + 20),),
        dynamic_shapes=(sizes,),
        strict=False,
        prefer_deferred_runtime_asserts_over_guards=True,
    )


def test_a_fixed_number_of_chunks_is_found() -> None:
    broken = broken_assumption(program(by_chunks), SIGNATURE, 4096)
    assert broken is not None
    assert "64" in broken


def test_chunks_without_a_loop_assume_nothing() -> None:
    assert broken_assumption(program(at_once), SIGNATURE, 4096) is None


def test_lengths_that_the_model_never_gets_do_not_count() -> None:
    assert broken_assumption(program(by_chunks), SIGNATURE, 3 * CHUNK) is None


def test_a_graph_for_one_number_of_chunks_is_refused() -> None:
    model = TINY["llama"]()
    part = Part(MODEL, SIGNATURE, lambda feed: [by_chunks(feed["x"])])
    with pytest.raises(OnnxError, match="fixes the batch or the length"):
        trace(model, part, None)
