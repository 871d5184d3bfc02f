"""Bytes on disk, in memory, and the time of a step: our export and its presets beside other exporters'."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks import steps
from tests.benchmarks.measure import table
from tests.benchmarks.other_exports import plain_form, with_optimum, with_transformers
from tests.models.tiny import build
from vocabsurgeon.onnx.audit import AuditOptions, audit
from vocabsurgeon.onnx.export import export
from vocabsurgeon.onnx.presets import MEMORY_FIRST, NO_PREPACKING, SPEED_FIRST, read_presets

MEBIBYTE = 1 << 20
HEADS = ("", "graph", "options", "stored ÷ expected", "anonymous", "peak ÷ unique", "tables", "load")
SHAPES = {"step": [1, 64, 60], "64 tokens": [64, 0, 16]}


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    models = os.environ.get("VOCABSURGEON_MODELS")
    if not models:
        pytest.skip("set VOCABSURGEON_MODELS to the folder with gemma-3-270m")
    return Path(models) / "gemma-3-270m"


def _rows(name: str, folder: Path, checkpoint: Path) -> list[list[str]]:
    report = audit(folder, checkpoint, AuditOptions(parity=False, runtime=True))
    assert report.runtime is not None
    rows = []
    for graph in report.runtime.graphs:
        for options, measured in (("default", graph.default), *graph.presets.items()):
            peak, anonymous = measured.peak or measured.peak_load or 0, measured.resident_anonymous or 0
            sizes = f"{report.bytes.ratio:.3f}", f"{anonymous / MEBIBYTE:.0f} MiB", f"{peak / report.bytes.unique:.2f}"
            rows.append(
                [name, graph.name, options, *sizes, str(measured.table_copies), f"{measured.load_s or 0:.2f} s"]
            )
    return rows


@pytest.mark.bench
def test_bytes_and_memory_of_exporters(checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, tmp_path / "ours")
    rows = _rows("vocabsurgeon", tmp_path / "ours", checkpoint)
    others: dict[str, Callable[[Path, Path], Path | None]] = {
        "transformers.exporters": with_transformers,
        "optimum-onnx": with_optimum,
    }
    for name, make in others.items():
        folder = make(checkpoint, tmp_path / name)
        rows += [[name, *["not measured"] * (len(HEADS) - 1)]] if folder is None else _rows(name, folder, checkpoint)
    table("gemma-3-270m, float32", rows, HEADS)


@pytest.mark.bench
def test_steps_of_the_presets(checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, tmp_path / "ours")
    ours = str(tmp_path / "ours" / "model.onnx")
    plain = str(plain_form(Path(ours)))
    presets = {preset.name: preset.entries for preset in read_presets(tmp_path / "ours") or ()}
    sessions = {
        "plain form": (plain, {}),
        SPEED_FIRST: (ours, presets[SPEED_FIRST]),
        MEMORY_FIRST: (ours, presets[MEMORY_FIRST]),
        f"{MEMORY_FIRST}, no packing": (ours, {**presets[MEMORY_FIRST], NO_PREPACKING: "1"}),
    }
    print_steps("gemma-3-270m, float32", sessions, SHAPES)


def print_steps(title: str, sessions: dict[str, tuple[str, dict[str, str]]], shapes: dict[str, list[int]]) -> None:
    """Run them in turn in one process; a table of medians and of the shortest, each ÷ the first session's."""
    request = json.dumps({"sessions": sessions, "shapes": shapes})
    done = subprocess.run([sys.executable, steps.__file__, request], capture_output=True, text=True, check=True)
    taken = json.loads(done.stdout)
    first = next(iter(taken))
    rows = []
    for name, by_shape in taken.items():
        cells = [name]
        for shape, seconds in by_shape.items():
            base = taken[first][shape]
            cells += [f"{median(seconds) * 1e3:.1f} ms", f"{median(seconds) / median(base):.2f}"]
            cells += [f"{min(seconds) * 1e3:.1f} ms", f"{min(seconds) / min(base):.2f}"]
        rows.append(cells)
    heads = [head for shape in shapes for head in (shape, "÷ plain", f"best {shape}", "÷ plain")]
    table(title, rows, ["", *heads])


def test_the_plain_form_computes_the_same_and_is_timed_beside_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(build("llama", tmp_path / "m"), tmp_path / "ours").out is not None
    ours = tmp_path / "ours" / "model.onnx"
    plain = plain_form(ours)
    assert audit(plain, tmp_path / "m").passed
    print_steps("tiny", {"plain": (str(plain), {}), "ours": (str(ours), {})}, {"step": [1, 4, 2]})
    assert capsys.readouterr().out.count("| ours") == 1
