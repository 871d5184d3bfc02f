"""Faults while staging and committing: failed calls, interrupts at each step, a killed process, a disk that lies."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.errors import OutputError


@pytest.fixture
def existing(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tokenizer.json").write_text("old")
    return tmp_path / "out"


def _run(out: Path, overwrite: bool = True) -> None:
    with StagedDirectory(out, overwrite=overwrite) as staged:
        (staged.path / "new").write_text("new")
        staged.commit()


def _state(out: Path) -> list[str]:
    """What lies beside and below OUT, temporary names without their random part."""
    return sorted(
        "/".join(part.split("-")[0] for part in path.relative_to(out.parent).parts) for path in out.parent.rglob("*")
    )


OLD, NEW = ["out", "out/tokenizer.json"], ["out", "out/new"]


def _failing(call: Callable[..., Any], at: int, error: BaseException, after: bool) -> Callable[..., Any]:
    """`call`, which at its `at`-th use raises `error`, before or after it did its work."""
    used = 0

    def wrapped(*arguments: Any, **options: Any) -> Any:
        nonlocal used
        used += 1
        if used == at and not after:
            raise error
        result = call(*arguments, **options)
        if used == at:
            raise error
        return result

    return wrapped


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=["EIO", "^C"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
def test_failure_at_either_rename_gives_the_old_folder_back(
    existing: Path, monkeypatch: pytest.MonkeyPatch, at: int, after: bool, error: BaseException
) -> None:
    monkeypatch.setattr(os, "rename", _failing(os.rename, at, error, after))
    with pytest.raises((OutputError, KeyboardInterrupt)):
        _run(existing)
    assert _state(existing) == OLD and (existing / "tokenizer.json").read_text() == "old"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_failure_at_the_only_rename_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(os, "rename", _failing(os.rename, 1, KeyboardInterrupt(), after))
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path / "made" / "out")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("at", [1, 2, 3])
def test_disk_that_fails_to_flush_gives_no_new_out(existing: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(os, "fsync", _failing(os.fsync, at, OSError(errno.EIO, "Input/output error"), False))
    with pytest.raises(OutputError, match="Input/output error"):
        _run(existing)
    assert _state(existing) == OLD


def test_early_flush_that_failed_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a lost write once; the second fsync of the same file would succeed."""
    monkeypatch.setattr(os, "fsync", _failing(os.fsync, 1, OSError(errno.EIO, "Input/output error"), False))
    with pytest.raises(OutputError, match="Input/output error"), StagedDirectory(tmp_path / "out") as staged:
        (staged.path / "new").touch()
        staged.start_flush()
        staged.commit()
    assert os.listdir(tmp_path) == []


def test_folders_that_cannot_be_flushed_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def refuse(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    _run(tmp_path / "out")
    assert os.listdir(tmp_path / "out") == ["new"]


def test_interrupt_while_the_replaced_folder_is_removed_keeps_the_new(
    existing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "unlink", _failing(os.unlink, 1, KeyboardInterrupt(), False))
    with pytest.raises(KeyboardInterrupt):
        _run(existing)
    assert _state(existing) == NEW


_KILLED = """
import os, signal, sys
from vocabsurgeon.checkpoint import staging
name, at, after = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
holder = staging if hasattr(staging, name) else os
call, used = getattr(holder, name), 0
def killing(*arguments, **options):
    global used
    used += 1
    if used == at and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    result = call(*arguments, **options)
    if used == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(holder, name, killing)
with staging.StagedDirectory(sys.argv[1], overwrite=True) as staged:
    (staged.path / "new").write_text("new")
    staged.commit()
"""
STAGED, REPLACED = [".out.staged", ".out.staged/new"], [".out.replaced", ".out.replaced/tokenizer.json"]
KILLS: dict[str, tuple[tuple[str, int, str], list[str]]] = {
    "before the flush": (("sync_tree", 1, "before"), STAGED + OLD),
    "after the flush": (("sync_tree", 1, "after"), STAGED + OLD),
    "before the first rename": (("rename", 1, "before"), STAGED + OLD),
    "between the renames": (("rename", 1, "after"), REPLACED + STAGED),
    "before the second rename": (("rename", 2, "before"), REPLACED + STAGED),
    "after the second rename": (("rename", 2, "after"), REPLACED + NEW),
    "before the old is removed": (("_remove", 1, "before"), REPLACED + NEW),
    "after the old is removed": (("_remove", 1, "after"), NEW),
}


@pytest.mark.parametrize(("hook", "state"), KILLS.values(), ids=list(KILLS))
def test_kill_leaves_a_documented_state(existing: Path, hook: tuple[str, int, str], state: list[str]) -> None:
    arguments = [sys.executable, "-c", _KILLED, str(existing), *map(str, hook)]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    assert _state(existing) == sorted(state)


def test_run_after_a_kill_works_and_touches_no_leftover(existing: Path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(existing), "rename", "1", "after"], check=False)
    _run(existing)
    assert _state(existing) == sorted(REPLACED + STAGED + NEW)
