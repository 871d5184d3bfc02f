"""CASES.md 26: a session folds `Transpose(table)` at load: one copy on disk, two in memory. Measured, and avoided."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.runner import vocabsurgeon
from tests.models.tiny import build
from tests.onnx.lookup_graphs import TABLE_BYTES, write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells memory by kind")


def test_case_26_audit_measures_the_second_copy(tmp_path: Path) -> None:
    write(tmp_path, "transposed")
    document = json.loads(vocabsurgeon("audit", tmp_path, "--runtime", "--json").stdout)
    assert document["bytes"]["ratio"] == pytest.approx(1, abs=0.001)
    assert document["duplicates"] == [] or document["duplicates"][0]["bytes"] < 100
    assert document["runtime"]["table_copies"] == 2
    assert document["runtime"]["resident_anonymous"] >= TABLE_BYTES


def test_case_26_our_exports_avoid_it(tmp_path: Path) -> None:
    checkpoint = build("llama", tmp_path / "checkpoint", vocab_size=16384, hidden_size=128)
    assert vocabsurgeon("export", checkpoint, tmp_path / "out").code == 0
    document = json.loads(vocabsurgeon("audit", tmp_path / "out", "--runtime", "--json").stdout)
    table = 16384 * 128 * 4
    memory_first = document["runtime"]["presets"]["memory-first"]
    assert document["runtime"]["table_bytes"] == table
    assert memory_first["table_copies"] == 1
    assert memory_first["resident_anonymous"] < table // 2
    assert memory_first["peak"] - document["runtime"]["weights"] < 20 << 20, "libraries and buffers, no second table"
