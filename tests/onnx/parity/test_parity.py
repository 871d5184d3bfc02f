"""`check_parity` passes what is right and fails a weight that is wrong; ways of use are in test_parity_scenarios."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.cli.runner import vocabsurgeon
from tests.onnx.broken import copied, overwrite
from tests.onnx.conftest import Exported
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.audit import AuditOptions, audit
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.parity.check import check_parity, why_not
from vocabsurgeon.onnx.parity.report import ParityReport

Get = Callable[..., Exported]


def checked(folder: Path, checkpoint: Path) -> ParityReport:
    return check_parity(folder / "model.onnx", Checkpoint.open(checkpoint))


def test_audit_with_a_checkpoint_checks_parity(exported: Get) -> None:
    case = exported("llama")
    document = audit(case.folder, case.checkpoint).to_dict()
    assert document["parity"] == case.report.parity.to_dict()
    assert document["passed"]


@pytest.mark.parametrize("tensor", ["lm_head.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight"])
def test_a_changed_weight_fails(exported: Get, tmp_path: Path, tensor: str) -> None:
    case = exported("llama", False)
    folder = copied(case.folder, tmp_path)
    overwrite(folder, tensor, 2, 0.9)
    report = checked(folder, case.checkpoint)
    assert not report.passed
    assert report.max_abs_diff > report.tolerance


def test_a_nan_fails(exported: Get, tmp_path: Path) -> None:
    case = exported("llama", False)
    folder = copied(case.folder, tmp_path)
    overwrite(folder, "lm_head.weight", 0, float("nan"))
    report = checked(folder, case.checkpoint)
    assert not report.passed
    assert report.to_dict()["max_abs_diff"] is None


def test_the_context_is_longer_than_the_window(exported: Get) -> None:
    for family in ("mistral", "gemma2", "gemma3_text"):
        assert "beyond the window" in exported(family).report.parity.checks


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


@pytest.mark.parametrize(
    ("made", "other"),
    [
        ("llama", "bert"),
        ("llama", "t5"),
        ("bert", "llama"),
        ("bert body", "llama"),
        ("t5", "llama"),
        ("t5", "bert body"),
        ("t5", "bart"),
        ("whisper", "bart"),
    ],
)
def test_a_checkpoint_of_another_kind_fails_or_is_one_line(made: str, other: str, exported: Get, kinds: Get) -> None:
    ours, theirs = (exported(name) if name == "llama" else kinds(name) for name in (made, other))
    try:
        report = audit(ours.folder, theirs.checkpoint, AuditOptions(max_ratio=9))
    except OnnxError as refused:
        assert "\n" not in str(refused)
    else:
        assert not report.passed
        assert report.parity is not None and report.notes[0] == report.parity.reasons[0]


def test_an_audit_prints_why_parity_failed(exported: Get, tmp_path: Path) -> None:
    case = exported("llama")
    folder = copied(case.folder, tmp_path)
    overwrite(folder, "model.layers.1.mlp.down_proj.weight", 3)
    ran = vocabsurgeon("audit", folder, "--checkpoint", case.checkpoint)
    assert ran.code == 1
    assert "logits differ by" in ran.stdout and "it starts at layer 1" in ran.stdout
