"""`inspect --compare` of two different tables beside reading them, and its memory, which does not grow with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.measure import compared, interleaved, tool
from tests.benchmarks.synthetic import HEAD, TINY, Shape, write_checkpoint
from vocabsurgeon.checkpoint.source import Checkpoint

TABLES = Shape(rows=500_000, width=640, layers=0, shard_bytes=700_000_000)
"""Two tables of 640 MB, and hardly anything else."""


def _drifted(folder: Path, shape: Shape, step: int) -> Path:
    """A checkpoint whose head is the input table with `step` added to the bits of every element."""
    write_checkpoint(folder, shape, head=True)
    source = Checkpoint.open(folder)
    info = source.tensors[HEAD]
    stored = np.memmap(source.path(info.file), np.uint16, "r+", info.start, info.shape)
    for start in range(0, info.shape[0], 1 << 14):
        stored[start : start + (1 << 14)] += np.uint16(step)
    return folder


def _measure(title: str, checkpoint: Path, work: Path, rounds: int) -> None:
    files = sorted(checkpoint.glob("*.safetensors"))
    commands = {
        "cat": lambda out: ["sh", "-c", 'cat "$@" | cat > /dev/null', "sh", *files],
        "inspect": lambda out: tool("inspect", checkpoint, "--json"),
        "inspect --compare": lambda out: tool("inspect", checkpoint, "--json", "--compare"),
    }
    compared(title, interleaved(commands, checkpoint, work, rounds), "cat")


def test_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _measure("small", _drifted(tmp_path / "m", TINY, 1), tmp_path, rounds=1)
    assert "| inspect --compare" in capsys.readouterr().out


@pytest.mark.bench
@pytest.mark.parametrize(("step", "what"), [(1, "one step apart"), (64, "half as much again")])
def test_two_tables_of_640_megabytes(tmp_path: Path, step: int, what: str) -> None:
    _measure(f"two tables of 640 MB, {what}", _drifted(tmp_path / "m", TABLES, step), tmp_path, rounds=5)
