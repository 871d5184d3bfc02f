"""`check_parity` passes what is right and fails what is wrong: a weight, the mask, the window, the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.models.tiny import build
from tests.onnx.conftest import Exported
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.parity import check_parity, why_not
from vocabsurgeon.onnx.parity_report import ParityReport

Get = Callable[..., Exported]


def checked(folder: Path, checkpoint: Path) -> ParityReport:
    return check_parity(folder / "model.onnx", Checkpoint.open(checkpoint))


def copied(case: Exported, tmp_path: Path) -> Path:
    return Path(shutil.copytree(case.folder, tmp_path / "copy"))


def test_audit_with_a_checkpoint_checks_parity(exported: Get) -> None:
    case = exported("llama")
    document = audit(case.folder, case.checkpoint).to_dict()
    assert document["parity"] == case.report.parity.to_dict()
    assert document["passed"]


@pytest.mark.parametrize("tensor", ["lm_head.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight"])
def test_a_changed_weight_fails(exported: Get, tmp_path: Path, tensor: str) -> None:
    case = exported("llama", False)
    folder = copied(case, tmp_path)
    place = next(t for t in read_onnx(folder / "model.onnx").tensors if t.name == tensor)
    with open(folder / "model.onnx_data", "r+b") as file:
        file.seek(place.offset + 8)
        file.write(np.float32(0.9).tobytes())
    report = checked(folder, case.checkpoint)
    assert not report.passed
    assert report.max_abs_diff > report.tolerance


def test_a_nan_fails(exported: Get, tmp_path: Path) -> None:
    case = exported("llama", False)
    folder = copied(case, tmp_path)
    place = next(t for t in read_onnx(folder / "model.onnx").tensors if t.name == "lm_head.weight")
    with open(folder / "model.onnx_data", "r+b") as file:
        file.seek(place.offset)
        file.write(np.float32(np.nan).tobytes())
    report = checked(folder, case.checkpoint)
    assert not report.passed
    assert report.to_dict()["max_abs_diff"] is None


def test_a_window_that_is_ignored_fails_beyond_the_window_alone(exported: Get, tmp_path: Path) -> None:
    wide = build("mistral", tmp_path / "wide", sliding_window=100)
    report = checked(exported("mistral").folder, wide)
    assert not report.passed


def test_the_context_is_longer_than_the_window(exported: Get) -> None:
    for family in ("mistral", "gemma2", "gemma3_text"):
        assert "beyond the window" in exported(family).report.parity.checks


@pytest.mark.parametrize(
    ("broken", "operators"),
    [("attention_mask", ["Equal", "CastLike"]), ("position_ids", ["Mul"]), ("past_key_values.0.key", ["Sub"])],
)
def test_an_input_that_is_read_wrong_fails(exported: Get, tmp_path: Path, broken: str, operators: list[str]) -> None:
    case = exported("llama")
    folder = copied(case, tmp_path)
    model = ir.load(folder / "model.onnx")
    value = next(value for value in model.graph.inputs if value.name == broken)
    uses, changed, nodes = list(value.uses()), value, []
    for operator in operators:
        nodes.append(ir.node(operator, [changed, value]))
        changed = nodes[-1].outputs[0]
    for use in uses:
        use.node.replace_input_with(use.idx, changed)
    model.graph.insert_before(model.graph[0], nodes)
    ir.save(model, folder / "model.onnx")
    assert not checked(folder, case.checkpoint).passed


def test_what_cannot_be_compared_is_told(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["pixels"], ["logits"])],
        "g",
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("input_ids", "pixels")],
        [onnx.helper.make_tensor_value_info("logits", 1, None)],
    )
    (tmp_path / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    file = read_onnx(tmp_path / "m.onnx")
    assert why_not((file,)) == "the graph takes pixels, which is not known"
    assert why_not((file, file)) == "there are 2 graphs; one is compared, or encoder_model.onnx with decoder_model.onnx"
