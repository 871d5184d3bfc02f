"""`extend`, `tie`, `untie` against `cp` and `sync` of the same files. Budget: 1.25 times their time, 200 MB.

With `--link`, where untouched shards are hard links, against `cp` and `sync` of the bytes that are new.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.benchmarks.measure import Command, compared, copied_and_synced, fresh, interleaved, table, tool
from tests.benchmarks.synthetic import LARGE, MIDDLE, SMALL, TINY, Shape, write_checkpoint

TOKENS = ("--token", "<|tool|>", "--token", "<|note|>", "--token", "w1w2")
OPERATIONS: dict[str, tuple[str, ...]] = {"extend": TOKENS, "untie": (), "tie": ()}


def _command(operation: str, checkpoint: Path, out: Path, *more: str) -> Command:
    return tool(operation, checkpoint, out, *OPERATIONS[operation], "--json", *more)


def _measure(operation: str, work: Path, shape: Shape, rounds: int) -> None:
    checkpoint = write_checkpoint(work / "m", shape, head=operation == "tie")
    size = sum(path.stat().st_size for path in checkpoint.iterdir())
    commands = {
        "cp + sync": partial(copied_and_synced, checkpoint),
        operation: partial(_command, operation, checkpoint),
        f"{operation} --no-verify": lambda out: _command(operation, checkpoint, out, "--no-verify"),
    }
    runs = interleaved(commands, checkpoint, work, rounds)
    compared(
        f"{operation}, {size / 1e9:.2f} GB in {len(list(checkpoint.glob('*.safetensors')))} files", runs, "cp + sync"
    )


def _measure_linked(operation: str, work: Path, shape: Shape, rounds: int) -> None:
    checkpoint = write_checkpoint(work / "m", shape, head=operation == "tie")
    fresh(_command(operation, checkpoint, work / "linked", "--link"))
    touched = work / "touched"
    touched.mkdir()
    for path in (work / "linked").iterdir():
        if path.stat().st_nlink == 1:
            shutil.move(path, touched / path.name)
    size = sum(path.stat().st_size for path in touched.iterdir())
    commands = {
        "cp + sync": partial(copied_and_synced, touched),
        f"{operation} --link": lambda out: _command(operation, checkpoint, out, "--link"),
    }
    runs = interleaved(commands, checkpoint, work, rounds)
    compared(f"{operation} --link: {size / 1e9:.3f} GB are new, the rest is linked", runs, "cp + sync")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_small(operation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for measure in (_measure, _measure_linked):
        (tmp_path / measure.__name__).mkdir()
        measure(operation, tmp_path / measure.__name__, TINY, rounds=1)
    assert f"| {operation} --link" in capsys.readouterr().out


@pytest.mark.bench
@pytest.mark.parametrize("operation", OPERATIONS)
def test_two_and_a_half_gigabytes(operation: str, tmp_path: Path) -> None:
    _measure(operation, tmp_path, LARGE, rounds=5)
    shutil.rmtree(tmp_path)


@pytest.mark.bench
@pytest.mark.parametrize("operation", OPERATIONS)
def test_two_and_a_half_gigabytes_linked(operation: str, tmp_path: Path) -> None:
    _measure_linked(operation, tmp_path, LARGE, rounds=5)
    shutil.rmtree(tmp_path)


@pytest.mark.bench
def test_memory_at_a_quarter_and_at_two_and_a_half_gigabytes(tmp_path: Path) -> None:
    rows = []
    for shape in (SMALL, LARGE):
        for operation in OPERATIONS:
            checkpoint = write_checkpoint(tmp_path / "m", shape, head=operation == "tie")
            size = sum(path.stat().st_size for path in checkpoint.iterdir())
            peak = fresh(_command(operation, checkpoint, tmp_path / "out")).peak
            rows.append([operation, f"{size / 1e9:.2f} GB", f"{peak / 1e6:.0f} MB"])
            shutil.rmtree(tmp_path / "m")
            shutil.rmtree(tmp_path / "out")
    table("memory", sorted(rows), ["", "checkpoint", "peak RSS"])


@pytest.mark.parametrize("operation", ["untie", "tie"])
def test_memory_does_not_grow_with_the_model(operation: str, tmp_path: Path) -> None:
    peaks = {}
    for name, shape in {"tiny": TINY, "middle": MIDDLE}.items():
        checkpoint = write_checkpoint(tmp_path / name, shape, head=operation == "tie")
        peaks[name] = fresh(_command(operation, checkpoint, tmp_path / f"{name}-out")).peak
    assert peaks["middle"] - peaks["tiny"] < 20e6, peaks
