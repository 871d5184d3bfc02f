"""An encoder's graph or a decoder's that is wrong in one way fails in the checks of that way, on the right side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.onnx.broken import ALWAYS, copied, misread, overwrite, shortened
from tests.onnx.conftest import Exported
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.parity.bisect import FirstDifference
from vocabsurgeon.onnx.parity.check import check_parity
from vocabsurgeon.onnx.parity.report import ParityReport

Get = Callable[..., Exported]
ENCODER, DECODER = "encoder_model.onnx", "decoder_model.onnx"
PADDED = {f"{side}-padded batch" for side in ("left", "right")}


def checked(folder: Path, checkpoint: Path) -> ParityReport:
    return check_parity([folder / ENCODER, folder / DECODER], Checkpoint.open(checkpoint))


def place(report: ParityReport) -> str:
    assert not report.passed
    assert isinstance(report.first_difference, FirstDifference), report.first_difference
    return report.first_difference.where


@pytest.mark.parametrize(("name", "layer"), [("bart", "layer 0"), ("t5", "layer 0")])
def test_a_mask_that_the_decoder_ignores(kinds: Get, tmp_path: Path, name: str, layer: str) -> None:
    case = kinds(name)
    folder = copied(case.folder, tmp_path)
    misread(folder / DECODER, "encoder_attention_mask", "Max")
    report = checked(folder, case.checkpoint)
    assert {check.partition(",")[0] for check in report.failed_checks} >= PADDED
    assert not any(check.startswith("one text") for check in report.failed_checks)
    assert report.encoder is not None
    assert report.encoder.failed_checks == ()
    assert place(report).startswith(f"decoder's {layer}")


def test_a_mask_that_the_encoder_ignores(kinds: Get, tmp_path: Path) -> None:
    case = kinds("bart")
    folder = copied(case.folder, tmp_path)
    misread(folder / ENCODER, "attention_mask", "Max")
    report = checked(folder, case.checkpoint)
    assert report.encoder is not None
    assert set(report.encoder.failed_checks) == PADDED
    assert place(report).startswith("encoder's layer 0")
    assert report.to_dict()["first_difference"]["where"].startswith("encoder's layer 0")


@pytest.mark.parametrize("part", ["decoder.value", "encoder.value"])
def test_a_past_that_is_read_wrong_fails_in_steps(kinds: Get, tmp_path: Path, part: str) -> None:
    case = kinds("bart")
    folder = copied(case.folder, tmp_path)
    misread(folder / DECODER, f"past_key_values.1.{part}", "Add", [ALWAYS])
    report = checked(folder, case.checkpoint)
    assert set(report.failed_checks) == {check for check in report.checks if "in steps" in check or "greedy" in check}
    assert place(report) == "decoder's layer 1 or the final norm"


@pytest.mark.parametrize(("graph", "part"), [(ENCODER, "encoder"), (DECODER, "decoder")])
def test_the_side_of_a_changed_weight(kinds: Get, tmp_path: Path, graph: str, part: str) -> None:
    case = kinds("bart")
    folder = copied(case.folder, tmp_path)
    name = next(t.name for t in read_onnx(folder / graph).tensors if f"{part}.layers.0.fc1.weight" in t.name)
    overwrite(folder, name, 3, graph=graph)
    report = checked(folder, case.checkpoint)
    assert place(report).startswith(f"{part}'s layer 0")


def test_sounds_are_followed_too(kinds: Get, tmp_path: Path) -> None:
    case = kinds("whisper")
    folder = copied(case.folder, tmp_path)
    name = next(t.name for t in read_onnx(folder / ENCODER).tensors if "encoder.layers.0.fc1.weight" in t.name)
    overwrite(folder, name, 3, graph=ENCODER)
    assert place(checked(folder, case.checkpoint)).startswith("encoder's layer 0")


def test_an_encoder_that_drops_a_position_fails_before_anything_is_decoded(kinds: Get, tmp_path: Path) -> None:
    case = kinds("bart")
    folder = copied(case.folder, tmp_path)
    shortened(folder / ENCODER, "last_hidden_state")
    report = checked(folder, case.checkpoint)
    assert report.encoder is not None
    assert report.encoder.failed_checks == ("one text",)
    assert not report.passed
    assert report.reasons[0].startswith("encoder: the export gives states of shape")
    assert report.checks == ()
