"""`measure_runtime`: what sessions take in memory, each in its own process, and how often the table lies there."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest

from tests.onnx.lookup_graphs import TABLE_BYTES, write
from vocabsurgeon.onnx.audit import AuditOptions, audit
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.presets import FOLD_LIMIT, NO_PREPACKING
from vocabsurgeon.onnx.runtime import measure as measuring
from vocabsurgeon.onnx.runtime.copies import largest_table
from vocabsurgeon.onnx.runtime.measure import measure, measure_runtime
from vocabsurgeon.onnx.runtime.report import Measured

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells memory by kind")
SLACK = 4 << 20
"""What a session takes besides weights: its threads, its graph, its first run."""


def measured(path: Path, **entries: str) -> Measured:
    options = {"fold": FOLD_LIMIT, "unpacked": NO_PREPACKING}
    tensors = read_onnx(path).tensors
    return measure(path, {options[name]: value for name, value in entries.items()}, largest_table(tensors))


@pytest.mark.parametrize(
    ("form", "entries", "copies"),
    [
        ("transposed", {}, 2),
        ("transposed", {"unpacked": "1"}, 2),
        ("gemm", {}, 2),
        ("gemm", {"unpacked": "1"}, 1),
        ("view", {}, 2),
        ("view", {"fold": str(TABLE_BYTES - 1)}, 1),
    ],
)
def test_copies_of_the_table_are_found(tmp_path: Path, form: str, entries: dict[str, str], copies: int) -> None:
    found = measured(write(tmp_path, form), **entries)
    assert found.table_copies == copies
    assert found.resident_anonymous is not None
    assert abs(found.resident_anonymous - (copies - 1) * TABLE_BYTES) < SLACK
    assert found.peak is not None and found.peak_load is not None
    assert found.peak >= found.peak_load >= found.resident_anonymous
    assert found.load_s is not None and found.step_s is not None and found.not_run is None


def test_each_graph_of_a_folder_is_measured_with_the_presets_for_it(tmp_path: Path) -> None:
    write(tmp_path, "transposed", "a.onnx")
    write(tmp_path, "view", "b.onnx")
    document = audit(tmp_path, options=AuditOptions(runtime=True)).to_dict()
    runtime = document["runtime"]
    assert set(runtime) >= {"resident_anonymous", "resident_file", "peak", "table_copies", "presets", "graphs"}
    copies = {name: graph["presets"]["memory-first"]["table_copies"] for name, graph in runtime["graphs"].items()}
    assert copies == {"a.onnx": 2, "b.onnx": 1}
    assert document["runtime_not_checked"] is None


def test_what_was_not_asked_for_is_null(tmp_path: Path) -> None:
    document = audit(write(tmp_path, "view")).to_dict()
    assert (document["runtime"], document["runtime_not_checked"]) == (None, "not asked for")


def test_a_session_that_does_not_open_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "view")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Gemm", b"Gemn"))
    graph = measure_runtime([read_onnx(path)], tmp_path).graphs[0]
    assert graph.default.peak is None and graph.default.resident_anonymous is None
    assert "Gemn" in str(graph.default.not_run)


def test_a_process_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text("import os\nos.abort()\n")
    monkeypatch.setattr(measuring, "PROBE", dying)
    found = measured(write(tmp_path / "m", "view"))
    assert found.not_run == "the process that opened the session died, or took too long"
    assert found.table_copies is None


def test_a_graph_whose_inputs_are_unknown_is_measured_at_load(tmp_path: Path) -> None:
    path = write(tmp_path, "view")
    model = onnx.load(path, load_external_data=False)
    model.graph.input.append(onnx.helper.make_tensor_value_info("text", onnx.TensorProto.STRING, [1]))
    onnx.save(model, path)
    found = measured(path)
    assert found.peak_load is not None and found.resident_anonymous is not None
    assert (found.peak, found.step_s) == (None, None)
    assert "string" in str(found.not_run)


def test_a_table_too_uniform_to_tell_is_not_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "view")
    (tmp_path / "model.onnx_data").write_bytes(bytes(TABLE_BYTES))
    assert measured(path).table_copies is None


def test_a_checkpoint_and_another_system_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measuring.why_not_measured([]) == "a checkpoint has no graph to open"
    path = write(tmp_path, "view")
    monkeypatch.setattr(measuring, "SMAPS", tmp_path / "nothing")
    document = audit(path, options=AuditOptions(runtime=True)).to_dict()
    assert document["runtime"] is None
    assert "does not tell" in document["runtime_not_checked"]
