"""Faults while a checkpoint is written: neither OUT nor anything beside it is left, and the source stays as it was."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checkpoints import checkpoint, random_tensor
from vocabsurgeon.checkpoint.edits import CopyTensor, WriteRows, Zeros
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.checkpoint.writer import write
from vocabsurgeon.errors import CheckpointError, OutputError, VocabsurgeonError

EDITS = (WriteRows("t", 0, 9, ((8, Zeros()),)), CopyTensor("m", "n"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "m", {"n": random_tensor("F32", (100_000,)), "t": random_tensor("BF16", (8, 4))})


def _run(source: Path, out: Path) -> None:
    checkpoint = Checkpoint.open(source)
    with StagedDirectory(out, source=source) as staged:
        write(checkpoint, EDITS, (), staged.path)
        staged.commit()


def _raising(error: BaseException) -> Callable[..., Any]:
    def raise_it(*_: Any, **__: Any) -> Any:
        raise error

    return raise_it


FULL, QUOTA = OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "Disk quota exceeded")
FAULTS: dict[str, tuple[str, BaseException, type[BaseException], str]] = {
    "full disk in write": ("write", FULL, OutputError, "No space left"),
    "full disk in the kernel's copy": ("copy_file_range", FULL, OutputError, "No space left"),
    "quota in the kernel's copy": ("copy_file_range", QUOTA, OutputError, "quota"),
    "disk error in write": ("write", OSError(errno.EIO, "Input/output error"), OutputError, "Input/output error"),
    "interrupt in write": ("write", KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    "interrupt in the kernel's copy": ("copy_file_range", KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    "a bug": ("write", ZeroDivisionError("ours"), ZeroDivisionError, "ours"),
}


@pytest.mark.parametrize(("call", "error", "expected", "reason"), FAULTS.values(), ids=list(FAULTS))
def test_fault_leaves_nothing(
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: BaseException,
    expected: type[BaseException],
    reason: str,
) -> None:
    if not hasattr(os, call):
        pytest.skip(f"this system has no {call}")
    before = {path: path.read_bytes() for path in source.iterdir()}
    monkeypatch.setattr(os, call, _raising(error))
    with pytest.raises(expected, match=reason):
        _run(source, tmp_path / "made" / "out")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["m"]
    assert {path: path.read_bytes() for path in source.iterdir()} == before


def test_source_that_cannot_be_read_is_not_told_as_an_output_that_cannot_be_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(os, "copy_file_range", _raising(failed), raising=False)
    monkeypatch.setattr(os, "preadv", _raising(failed))
    with pytest.raises(CheckpointError, match=r"m/config\.json: cannot be read: Input/output error"):
        _run(source, tmp_path / "out")
    assert os.listdir(tmp_path) == ["m"]


_LIMITED = """
import resource, sys
from pathlib import Path
from tests.faults.test_write_faults import _run
from vocabsurgeon.errors import OutputError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    _run(Path(sys.argv[1]), Path(sys.argv[2]))
except OutputError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [40, 200, 300_000, 700_000])
def test_real_limit_on_file_size_at_any_point_leaves_nothing(source: Path, tmp_path: Path, limit: int) -> None:
    root = Path(__file__).parents[2]
    arguments = [sys.executable, "-c", _LIMITED, str(source), str(tmp_path / "made" / "out"), str(limit)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=root, check=False)
    assert "cannot be written: File too large" in done.stdout and done.stdout.count("\n") == 1, done.stderr
    assert os.listdir(tmp_path) == ["m"]


def test_out_inside_the_source_is_refused_before_anything_is_written(source: Path) -> None:
    before = sorted(os.listdir(source))
    with pytest.raises(VocabsurgeonError, match="inside the source"):
        _run(source, source / "out")
    assert sorted(os.listdir(source)) == before
