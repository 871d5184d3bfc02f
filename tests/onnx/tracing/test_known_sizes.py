"""What is known of a size is written into the graph, so that tensors without elements keep their shapes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vocabsurgeon.onnx.tracing.known_sizes import state_sizes

if TYPE_CHECKING:
    import torch


def exported(module: torch.nn.Module) -> torch.export.ExportedProgram:
    import torch
    from torch.export import Dim

    example = torch.ones(2, 3, 4)
    return torch.export.export(module, (example,), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), strict=False)


def module_of(kind: str) -> torch.nn.Module:
    import torch

    class Flat(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(x.shape[0], x.shape[1], 2, -1)

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat_interleave(2, dim=-1)

    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat_interleave(3, dim=2) + 1

    return {"view": Flat(), "last axis": Twice(), "inner axis": Rows()}[kind].eval()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own
@pytest.mark.parametrize("kind", ["view", "last axis", "inner axis"])
@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_a_tensor_without_elements_keeps_its_shape(tmp_path: Path, kind: str, tokens: int) -> None:
    import onnxruntime
    import torch

    module = module_of(kind)
    program = exported(module)
    state_sizes(program.graph_module)
    torch.onnx.export(program, args=(), f=str(tmp_path / "m.onnx"), optimize=False, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    given = np.arange(3 * tokens * 4, dtype=np.float32).reshape(3, tokens, 4)
    (found,) = session.run(None, {session.get_inputs()[0].name: given})
    expected = module(torch.from_numpy(given)) if tokens else np.zeros((3, 0, *found.shape[2:]), np.float32)
    np.testing.assert_array_equal(found, np.asarray(expected))
    assert found.shape[2:] == {"view": (2, 2), "last axis": (8,), "inner axis": (12,)}[kind]


def test_a_size_that_is_not_known_stays_open() -> None:
    import torch

    class Open(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(x.shape[0], -1)

    program = exported(Open())
    state_sizes(program.graph_module)
    (view,) = [node for node in program.graph.nodes if node.target is torch.ops.aten.view.default]
    assert view.args[1][1] == -1
