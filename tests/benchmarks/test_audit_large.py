"""`audit` of a synthetic export of 10 GB: wall time beside `cat` of the same files, and peak memory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.benchmarks.measure import Command, Run, fresh, table, tool
from tests.onnx.exports import model, value
from tests.onnx.handmade import Array, external
from vocabsurgeon.onnx.audit import audit

ROWS, WIDTH = 262144, 1024
SIDE = 4096
ORPHANED = 512 << 20
PEAK = 300_000_000
"""Budget of resident bytes, for any size."""
DATA = "model.onnx_data"


@pytest.mark.bench
def test_audit_of_ten_gigabytes(tmp_path: Path) -> None:
    size = int(float(os.environ.get("VOCABSURGEON_AUDIT_GB", "10")) * 1e9)
    if shutil.disk_usage(tmp_path).free < 1.2 * size:
        pytest.skip(f"needs {1.2 * size / 1e9:.0f} GB in {tmp_path}")
    folder = tmp_path / "export"
    try:
        stored = written(folder, size)
        _print(folder, stored)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def written(folder: Path, size: int) -> int:
    """A graph over `size` bytes or more: a table, its transpose, an orphaned stretch, distinct matrices of one shape.

    Every byte is random and written. Returns the bytes of the data file.
    """
    folder.mkdir()
    tensors, offset = [], 0
    with open(folder / DATA, "wb") as file:
        for name, array in _arrays(size):
            if name:
                tensors.append(external(name, TensorProto.FLOAT, array.shape, offset, array.nbytes))
            file.write(array.data)
            offset += array.nbytes
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x"])]
    nodes += [helper.make_node("MatMul", ["x", tensor.name], [f"{tensor.name}_out"]) for tensor in tensors[1:]]
    inputs = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    made = model(nodes, tensors, inputs, [value("turned_out", TensorProto.FLOAT, None)])
    (folder / "model.onnx").write_bytes(made.SerializeToString())
    return offset


def _arrays(size: int) -> Iterator[tuple[str, Array]]:
    """Name and content, in file order; a content without a name belongs to no tensor."""
    random = np.random.default_rng(0)
    whole = random.standard_normal((ROWS, WIDTH), dtype=np.float32)
    left = size - 2 * whole.nbytes - ORPHANED
    yield "table", whole
    yield "turned", np.ascontiguousarray(whole.T)
    del whole
    yield "", random.standard_normal(ORPHANED // 4, dtype=np.float32)
    for number in range(-(-left // (SIDE * SIDE * 4))):
        yield f"layer.{number}", random.standard_normal((SIDE, SIDE), dtype=np.float32)


def _print(folder: Path, stored: int) -> None:
    report = audit(folder)
    assert (report.bytes.stored, report.bytes.orphaned) == (stored, ORPHANED)
    assert [(entry.relation, entry.wasted) for entry in report.duplicates] == [("transposed", ROWS * WIDTH * 4)]
    files = sorted(folder.iterdir())
    commands: dict[str, Command] = {"cat": ["cat", *files], "audit": tool("audit", folder, "--max-ratio", "9")}
    rows = []
    for cache in ("cold", "warm"):
        runs = {}
        for name, command in commands.items():
            _read(files) if cache == "warm" else _forget(files)
            runs[name] = fresh(command)
        rows += [[f"{name}, {cache}", *_cells(run, runs["cat"])] for name, run in runs.items()]
        assert runs["audit"].peak <= PEAK
    summary = json.dumps(report.to_dict()["summary"], ensure_ascii=False)
    table(f"{stored / 1e9:.2f} GB: {summary}", rows, ["", "wall", "÷ cat", "CPU", "peak RSS"])


def _cells(run: Run, base: Run) -> list[str]:
    return [f"{run.wall:.2f} s", f"{run.wall / base.wall:.2f}", f"{run.cpu:.2f} s", f"{run.peak / 1e6:.0f} MB"]


def _read(files: list[Path]) -> None:
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def _forget(files: list[Path]) -> None:
    """Let the system drop what it holds of these files."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
