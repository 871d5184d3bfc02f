"""`bisect` names the first layer whose output differs, or says why it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.models.tiny import model
from tests.onnx.conftest import Exported
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.bisect import FirstDifference, Unfound, bisect, locate
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.parity import check_parity

Get = Callable[..., Exported]
PROMPT = [5, 60, 17, 33, 2, 41, 9, 28]


def broken(case: Exported, tmp_path: Path, tensor: str) -> Path:
    """A copy of the export with one number of `tensor` changed."""
    folder = Path(shutil.copytree(case.folder, tmp_path / "broken"))
    place = next(t for t in read_onnx(folder / "model.onnx").tensors if t.name == tensor)
    with open(folder / "model.onnx_data", "r+b") as file:
        file.seek(place.offset + 8)
        file.write(np.float32(2.5).tobytes())
    return folder / "model.onnx"


@pytest.mark.parametrize(
    ("tensor", "where"),
    [
        ("model.embed_tokens.weight", "embedding"),
        ("model.layers.0.self_attn.v_proj.weight", "layer 0"),
        ("model.layers.1.mlp.down_proj.weight", "layer 1"),
        ("model.layers.2.input_layernorm.weight", "layer 2"),
        ("model.norm.weight", "layer 3 or the final norm"),
        ("lm_head.weight", "LM head"),
    ],
)
def test_the_layer_of_a_changed_weight_is_named(exported: Get, tmp_path: Path, tensor: str, where: str) -> None:
    case = exported("llama", False, num_hidden_layers=4)
    ids = [0, *PROMPT] if tensor.startswith("model.embed") else PROMPT
    found = locate(model("llama", False, num_hidden_layers=4), broken(case, tmp_path, tensor), ids)
    assert isinstance(found, FirstDifference), found
    assert found.where == where
    assert found.max_abs_diff > found.tolerance
    assert (found.agrees_until is None) == (where == "embedding")


def test_a_failed_parity_says_where_it_starts(exported: Get, tmp_path: Path) -> None:
    case = exported("llama", False, num_hidden_layers=4)
    graph = broken(case, tmp_path, "model.layers.1.mlp.down_proj.weight")
    report = check_parity(graph, Checkpoint.open(case.checkpoint))
    document = report.to_dict()
    assert not report.passed
    assert document["first_difference"]["where"] == "layer 1"
    assert any("it starts at layer 1, whose output differs by" in reason for reason in document["reasons"])
    assert case.report.parity.to_dict()["first_difference"] is None


@pytest.mark.parametrize("family", ["gemma3_text", "gpt2", "opt", "bloom"])
def test_nothing_is_named_where_all_layers_agree(exported: Get, family: str) -> None:
    case = exported(family)
    found = locate(model(family), case.folder / "model.onnx", PROMPT)
    assert isinstance(found, Unfound), found
    assert "every layer's output agrees" in found.reason


def test_a_graph_that_does_not_run_is_told(exported: Get, tmp_path: Path) -> None:
    case = exported("llama")
    graph = ir.load(case.folder / "model.onnx")
    graph.graph[0].op_type = "Nonesuch"
    ir.save(graph, tmp_path / "model.onnx")
    found = locate(model("llama"), tmp_path / "model.onnx", PROMPT)
    assert isinstance(found, Unfound)
    assert "inner values cannot be read" in str(found)


def test_a_model_without_hidden_states_is_told(exported: Get) -> None:
    built: Any = model("llama")
    forward = built.forward

    def without(input_ids: Any, attention_mask: Any, output_hidden_states: bool = False) -> Any:
        return forward(input_ids=input_ids, attention_mask=attention_mask)

    built.forward = without
    found = bisect(built, exported("llama").folder / "model.onnx", {"input_ids": np.array([PROMPT])})
    assert found == Unfound("the model gives no hidden states")
