"""gemma-3-270m, as published, through export, audit and dedupe, and what other exporters make of it (cases 23 to 26).

Marked `real`: needs VOCABSURGEON_MODELS to name its folder; case 23 needs optimum-onnx in its own environment.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.benchmarks.other_exports import OPTIMUM, plain_form, with_optimum, with_transformers
from vocabsurgeon.onnx.audit import AuditOptions, audit
from vocabsurgeon.onnx.dedupe.operate import dedupe
from vocabsurgeon.onnx.dedupe.report import DedupeReport
from vocabsurgeon.onnx.export import export
from vocabsurgeon.onnx.export_report import ExportReport
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.presets import MEMORY_FIRST

pytestmark = pytest.mark.real
WEIGHTS = 2 * 536_196_352
"""Bytes of the distinct parameters in float32."""
TABLE = 262144 * 640 * 4
LITTLE = 16 << 20
"""Masks, rotary tables and constants that other exporters store."""


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    return Path(os.environ["VOCABSURGEON_MODELS"]) / "gemma-3-270m"


@pytest.fixture(scope="module")
def ours(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> ExportReport:
    """The export; do not write into its folder."""
    return export(checkpoint, tmp_path_factory.mktemp("ours") / "onnx")


def folder(report: ExportReport | DedupeReport) -> Path:
    assert report.out is not None
    return report.out


def borrowed(report: ExportReport, out: Path) -> Path:
    """The graph of an export beside a link to its data: for what changes the graph alone."""
    out.mkdir()
    shutil.copyfile(folder(report) / "model.onnx", out / "model.onnx")
    os.link(folder(report) / "model.onnx_data", out / "model.onnx_data")
    return out / "model.onnx"


def memory(path: Path) -> dict[str, Any]:
    runtime: dict[str, Any] = audit(path, options=AuditOptions(runtime=True)).to_dict()["runtime"]
    return runtime


def deduped(source: Path, out: Path) -> DedupeReport:
    """What is promised of every repaired export of this model: all its weights, once, in one file."""
    report = dedupe(source, out)
    assert report.passed and report.parity is not None and report.out == out
    assert WEIGHTS <= report.after.stored <= WEIGHTS + LITTLE
    assert len([path for path in out.iterdir() if "data" in path.name]) == 1
    assert audit(out).bytes.orphaned == 0
    return report


def test_gemma_is_exported_at_its_expected_size_with_its_own_logits(ours: ExportReport) -> None:
    document = ours.to_dict()
    assert document["dtype"]["exported"] == "float32"
    assert document["bytes"]["expected"] == WEIGHTS
    assert document["bytes"]["ratio"] <= 1.01
    assert document["bytes"]["orphaned"] == 0
    assert document["duplicates"] == []
    assert document["parity"]["passed"]
    assert document["parity"]["greedy_equal"]
    assert "beyond the window" in document["parity"]["checks"]
    alone = audit(folder(ours)).to_dict()
    assert alone["bytes"]["stored"] == document["bytes"]["stored"]
    assert alone["parity"] is None


def test_case_26_memory_first_holds_the_weights_once(ours: ExportReport) -> None:
    runtime = memory(folder(ours))
    assert runtime["table_copies"] == 2
    assert runtime["presets"][MEMORY_FIRST]["table_copies"] == 1
    assert runtime["presets"][MEMORY_FIRST]["peak"] <= 1.15 * WEIGHTS


def test_case_26_the_plain_form_holds_its_table_twice_until_it_is_deduplicated(
    ours: ExportReport, tmp_path: Path
) -> None:
    graph = borrowed(ours, tmp_path / "in")
    plain_form(graph)
    graph.unlink()
    runtime = memory(tmp_path / "in")
    assert (runtime["table_copies"], runtime["presets"][MEMORY_FIRST]["table_copies"]) == (2, 2)
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert [forms for _, forms in report.unfolded] == [("Gemm(transB=1)",)]
    runtime = memory(tmp_path / "out")
    assert runtime["presets"][MEMORY_FIRST]["table_copies"] == 1
    assert runtime["presets"][MEMORY_FIRST]["peak"] <= 1.15 * WEIGHTS


def test_case_25_prefill_and_decode_end_on_one_data_file(checkpoint: Path, tmp_path: Path) -> None:
    document = audit(with_transformers(checkpoint, tmp_path / "in")).to_dict()
    assert document["bytes"]["stored"] >= 2 * WEIGHTS
    assert document["bytes"]["ratio"] == pytest.approx(2, abs=0.01)
    worst = document["duplicates"][0]
    assert (worst["relation"], worst["bytes"]) == ("equal", TABLE)
    assert {name.partition(":")[0] for name in worst["tensors"]} == {"decode.onnx", "prefill.onnx"}
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert {name for name, _ in report.unfolded} == set(worst["tensors"])
    read = [read_onnx(tmp_path / "out" / name).data_files for name in ("prefill.onnx", "decode.onnx")]
    assert read == [(tmp_path / "out" / "model.onnx_data",)] * 2


def test_case_24_an_export_saved_again_to_its_place_is_told_and_shrunk(ours: ExportReport, tmp_path: Path) -> None:
    source = tmp_path / "in"
    shutil.copytree(folder(ours), source)
    model = onnx.load(source / "model.onnx")
    onnx.save_model(model, source / "model.onnx", save_as_external_data=True, location="model.onnx_data")
    del model
    document = audit(source).to_dict()
    assert document["bytes"]["orphaned"] >= WEIGHTS and not document["passed"]
    assert "1.07 GB belongs to no tensor" in document["summary"]
    report = deduped(source, tmp_path / "out")
    assert report.parity is not None and report.parity.bit_exact


@pytest.mark.skipif(OPTIMUM not in os.environ, reason=f"{OPTIMUM} does not name a Python with optimum-onnx")
def test_case_23_the_transposed_table_of_optimum_is_named_and_removed(checkpoint: Path, tmp_path: Path) -> None:
    made = with_optimum(checkpoint, tmp_path / "in")
    assert made is not None
    document = audit(made).to_dict()
    assert document["bytes"]["ratio"] == pytest.approx(1.626, abs=0.005)
    worst = document["duplicates"][0]
    assert (worst["relation"], worst["bytes"]) == ("transposed", TABLE)
    assert "671 MB is a transposed copy of the token table" in document["summary"]
    report = deduped(made, tmp_path / "out")
    assert report.before.stored - report.after.stored == TABLE
    assert memory(tmp_path / "out")["presets"][MEMORY_FIRST]["table_copies"] == 1
