"""`locate` and `bisect` name the first layer whose output differs, or say why they cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.models.tiny import model
from tests.onnx.broken import STEP, copied, misread, overwrite
from tests.onnx.conftest import Exported
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.parity.bisect import FirstDifference, Kept, State, Unfound, bisect
from vocabsurgeon.onnx.parity.check import check_parity
from vocabsurgeon.onnx.parity.inner_values import InnerValues
from vocabsurgeon.onnx.parity.locate import locate
from vocabsurgeon.onnx.parity.pair import Pair, call_of
from vocabsurgeon.onnx.parity.sides import OnnxSide, TorchSide
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.parity.tolerances import Tolerance, tolerance_for
from vocabsurgeon.onnx.parity.trail import Trail

Get = Callable[..., Exported]
PROMPT = [5, 60, 17, 33, 2, 41, 9, 28]
HALF = Tolerance(0.5, 0.0)


def located(built: Any, folder: Path, ids: list[int] = PROMPT) -> FirstDifference | Unfound:
    """Where a prompt by itself starts to differ."""
    export = OnnxSide(folder / "model.onnx")
    pair = Pair(TorchSide(built, export.inputs, export.output, export.caches), export, Tally())
    row = np.array([ids])
    return locate(pair, Trail((call_of(row, np.ones_like(row)),)), 1e-4, tolerance_for("float32"))


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
    folder = copied(case.folder, tmp_path)
    overwrite(folder, tensor, 2)
    ids = [0, *PROMPT] if tensor.startswith("model.embed") else PROMPT
    found = located(model("llama", False, num_hidden_layers=4), folder, ids)
    assert isinstance(found, FirstDifference), found
    assert found.where == where
    assert found.max_abs_diff > found.tolerance
    assert (found.agrees_until is None) == (where == "embedding")


def test_a_failed_parity_says_where_it_starts(exported: Get, tmp_path: Path) -> None:
    case = exported("llama", False, num_hidden_layers=4)
    folder = copied(case.folder, tmp_path)
    overwrite(folder, "model.layers.1.mlp.down_proj.weight", 2)
    report = check_parity(folder / "model.onnx", Checkpoint.open(case.checkpoint))
    document = report.to_dict()
    assert not report.passed
    assert document["first_difference"]["where"] == "layer 1"
    assert any("it starts at layer 1, whose output differs by" in reason for reason in document["reasons"])
    assert case.report.parity.to_dict()["first_difference"] is None


@pytest.mark.parametrize("family", ["gemma3_text", "gpt2", "opt", "bloom"])
def test_nothing_is_named_where_all_layers_agree(exported: Get, family: str) -> None:
    found = located(model(family), exported(family).folder)
    assert isinstance(found, Unfound), found
    assert "every layer's output agrees" in found.reason


def test_a_number_that_is_none_is_found(exported: Get, tmp_path: Path) -> None:
    case = exported("llama", False, num_hidden_layers=4)
    folder = copied(case.folder, tmp_path)
    overwrite(folder, "lm_head.weight", 2, float("nan"))
    found = located(model("llama", False, num_hidden_layers=4), folder)
    assert isinstance(found, FirstDifference), found
    assert (found.where, found.to_dict()["max_abs_diff"]) == ("LM head", None)
    assert "whose output is no number" in str(found)


def test_of_several_calls_the_first_that_differs_is_taken_apart(exported: Get, tmp_path: Path) -> None:
    """Later ones have the wrong keys in their cache already."""
    folder = copied(exported("llama", False, num_hidden_layers=4).folder, tmp_path)
    misread(folder / "model.onnx", "position_ids", "Add", [STEP])
    export = OnnxSide(folder / "model.onnx")
    side = TorchSide(model("llama", False, num_hidden_layers=4), export.inputs, export.output, export.caches)
    ids, mask = np.array([PROMPT]), np.ones((1, len(PROMPT)), np.int64)
    calls = tuple(call_of(ids[:, start:stop], mask[:, :stop]) for start, stop in ((0, 5), (5, 6), (6, 7), (7, 8)))
    found = locate(Pair(side, export, Tally()), Trail(calls), 1e-4, tolerance_for("float32"))
    assert isinstance(found, FirstDifference), found
    assert found.where == "layer 0"


def test_a_graph_that_does_not_run_is_told(exported: Get, tmp_path: Path) -> None:
    graph = ir.load(exported("llama").folder / "model.onnx")
    graph.graph[0].op_type = "Nonesuch"
    ir.save(graph, tmp_path / "model.onnx")
    found = bisect([], InnerValues(tmp_path / "model.onnx", {}), HALF)
    assert isinstance(found, Unfound)
    assert "inner values cannot be read" in str(found)


def test_a_model_without_hidden_states_is_told(exported: Get) -> None:
    built: Any = model("llama")
    forward = built.forward

    def without(input_ids: Any, attention_mask: Any, past_key_values: Any = None, use_cache: bool = True) -> Any:
        return forward(input_ids=input_ids, attention_mask=attention_mask)

    built.forward = without
    assert located(built, exported("llama").folder) == Unfound("the model gives no hidden states")


def test_without_a_difference_there_is_nothing_to_find() -> None:
    side: Any = None
    found = locate(Pair(side, side, Tally()), None, 1.0, HALF)
    assert found == Unfound("no two numbers differ")


class Inner(InnerValues):
    """Values as if a graph had computed them."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.unusable = None
        self._values = {name: np.full((1, 2, 3), value, np.float32) for name, value in values.items()}
        self._order = {name: place for place, name in enumerate(self._values)}


def states(**values: float) -> list[State | Kept]:
    everywhere = np.ones((1, 2), bool)
    return [State(name, np.full((1, 2, 3), value, np.float32), everywhere) for name, value in values.items()]


def test_a_state_that_the_graph_has_in_another_form_is_passed_over() -> None:
    """A later state that agrees shows that those before were right."""
    found = bisect(states(a=1, b=50, c=3, d=4, e=5), Inner({"x": 1, "y": 3, "z": 40, "w": 41}), HALF)
    assert isinstance(found, FirstDifference), found
    assert (found.where, found.agrees_until) == ("d", "y")


def test_a_state_of_a_size_that_the_graph_has_not_is_told() -> None:
    short = State("short", np.zeros((1, 1, 2), np.float32), np.ones((1, 1), bool))
    found = bisect([*states(a=1), short], Inner({"x": 1}), HALF)
    assert found == Unfound("the graph computes nothing of the size of the output of the short")


def test_a_cache_is_judged_at_attended_positions() -> None:
    model_side, export_side = np.zeros((1, 2, 1, 4), np.float32), np.zeros((1, 2, 1, 4), np.float32)
    export_side[0, 1] = 9
    for where, named in (([[True, False]], None), ([[True, True]], "cache of layer 0 (key)")):
        kept = Kept("cache of layer 0 (key)", model_side, export_side, np.array(where))
        found = bisect([*states(a=1), kept, *states(b=7)], Inner({"x": 1, "y": 7 if named is None else 8}), HALF)
        assert getattr(found, "where", None) == named
