"""The export's type is what the checkpoint has where the runtime runs it; the runtime is asked, not remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.tiny import build
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx import runtime_types
from vocabsurgeon.onnx.runtime_types import choose_dtype, runs


def test_the_cpu_provider_runs_float32_and_float16_and_not_bfloat16() -> None:
    assert [runs(name) for name in ("float32", "float16", "bfloat16")] == [True, True, False]


def test_auto_keeps_the_checkpoints_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Checkpoint.open(build("llama", tmp_path / "c", dtype="bfloat16"))
    choice = choose_dtype(source, "auto")
    assert choice.exported == "float32"
    assert choice.reason == "the checkpoint is bfloat16, which onnxruntime's CPU provider does not run"
    monkeypatch.setattr(runtime_types, "runs", lambda name: True)
    assert choose_dtype(source, "auto").to_dict() == {
        "requested": "auto",
        "exported": "bfloat16",
        "reason": "the checkpoint's own",
    }


def test_auto_exports_types_that_are_none_to_export_in_as_float32(tmp_path: Path) -> None:
    source = Checkpoint.open(build("llama", tmp_path / "c", dtype="float64"))
    assert choose_dtype(source, "auto").exported == "float32"


def test_a_type_asked_for_is_given_or_refused(tmp_path: Path) -> None:
    source = Checkpoint.open(build("llama", tmp_path / "c"))
    assert choose_dtype(source, "float16").exported == "float16"
    with pytest.raises(OnnxError, match="bfloat16"):
        choose_dtype(source, "bfloat16")
    with pytest.raises(UsageError, match="unknown dtype"):
        choose_dtype(source, "float8")
