"""The disk is set to work while files are written, and nothing depends on it."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

from vocabsurgeon.checkpoint import write_back
from vocabsurgeon.checkpoint.write_back import WORTHWHILE, begin_write_back


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr(write_back, "_sync_file_range", lambda: lambda *given: calls.append(given))
    return calls


def _written(path: Path, *parts: int) -> list[int]:
    """Write parts of these lengths, beginning write-back after each; returns the descriptor in a list."""
    with open(path, "wb", buffering=0) as file:
        for length in parts:
            file.write(b"x" * length)
            begin_write_back(file.fileno(), length)
        return [file.fileno()]


def test_write_back_begins_with_what_was_written_last(tmp_path: Path, asked: list[tuple[int, ...]]) -> None:
    (descriptor,) = _written(tmp_path / "f", WORTHWHILE, WORTHWHILE + 1)
    assert asked == [(descriptor, 0, WORTHWHILE, 2), (descriptor, WORTHWHILE, WORTHWHILE + 1, 2)]


def test_small_parts_are_left_to_the_fsync(tmp_path: Path, asked: list[tuple[int, ...]]) -> None:
    _written(tmp_path / "f", 1, WORTHWHILE - 1)
    assert asked == []


@pytest.mark.skipif(sys.platform != "linux", reason="the call is Linux's")
def test_the_real_call_leaves_file_and_position_alone(tmp_path: Path) -> None:
    assert write_back._sync_file_range() is not None
    _written(tmp_path / "f", WORTHWHILE, 3)
    assert (tmp_path / "f").read_bytes() == b"x" * (WORTHWHILE + 3)


def test_systems_without_the_call_do_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_back._sync_file_range.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert write_back._sync_file_range() is None
    _written(tmp_path / "f", WORTHWHILE)
    write_back._sync_file_range.cache_clear()
    assert os.path.getsize(tmp_path / "f") == WORTHWHILE
