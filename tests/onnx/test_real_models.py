"""gemma-3-270m, as published, through export and audit. Marked `real`: needs VOCABSURGEON_MODELS to name its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.export import export

pytestmark = pytest.mark.real


def test_gemma_is_exported_at_its_expected_size_with_its_own_logits(tmp_path: Path) -> None:
    checkpoint = Path(os.environ["VOCABSURGEON_MODELS"]) / "gemma-3-270m"
    document = export(checkpoint, tmp_path / "onnx").to_dict()
    assert document["dtype"]["exported"] == "float32"
    assert document["bytes"]["expected"] == 2 * 536_196_352
    assert document["bytes"]["ratio"] <= 1.01
    assert document["bytes"]["orphaned"] == 0
    assert document["duplicates"] == []
    assert document["parity"]["passed"]
    assert document["parity"]["greedy_equal"]
    assert "beyond the window" in document["parity"]["checks"]
    alone = audit(tmp_path / "onnx").to_dict()
    assert alone["bytes"]["stored"] == document["bytes"]["stored"]
    assert alone["parity"] is None
