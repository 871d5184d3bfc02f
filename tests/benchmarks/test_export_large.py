"""Exports beyond the 2 GiB that one protobuf message may have: `export`, then `audit` and `dedupe` of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.measure import fresh, table, tool
from tests.benchmarks.synthetic import LARGE, write_checkpoint
from vocabsurgeon.onnx.audit import audit

SHAPE = replace(LARGE, layers=8)
"""1.1 GB in bfloat16; twice that as exported."""


@pytest.mark.bench
def test_export_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    checkpoint, out = write_checkpoint(tmp_path / "in", SHAPE, head=False), tmp_path / "onnx"
    runs = {
        "export": fresh(tool("export", checkpoint, out, "--dtype", "float32")),
        "audit": fresh(tool("audit", out)),
        "dedupe": fresh(tool("dedupe", out, tmp_path / "deduped")),
    }
    counted = audit(out).bytes
    assert counted.stored > 1 << 31
    assert (counted.ratio, counted.orphaned) == (1, 0)
    rows = [[name, f"{run.wall:.1f} s", f"{run.cpu:.1f} s", f"{run.peak / 1e9:.2f} GB"] for name, run in runs.items()]
    table(f"{counted.stored / 1e9:.2f} GB", rows, ["", "wall", "CPU", "peak RSS"])
