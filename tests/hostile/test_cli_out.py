"""OUT where it must not be, and a disk that says no."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tests.cli.runner import in_process, vocabsurgeon
from tests.onnx.exports import optimum_like
from tests.surgery.shelf import contents, leftovers, shelved, taken

WRITING = {"extend": ["--token", "<a>"], "tie": [], "untie": []}


@pytest.mark.parametrize("operation", WRITING)
@pytest.mark.parametrize("place", ["source", "source/out", "source/a/b", ".", "link", "link/out"])
@pytest.mark.parametrize("overwrite", [False, True], ids=["", "--overwrite"])
def test_out_in_on_or_around_the_source_is_refused(operation: str, place: str, overwrite: bool, tmp_path: Path) -> None:
    source = taken(tmp_path / "around" / "source")
    (tmp_path / "around" / "link").symlink_to("source")
    before = contents(tmp_path, without=())
    arguments = [source, tmp_path / "around" / place, *WRITING[operation], *(["--overwrite"] if overwrite else [])]
    ran = vocabsurgeon(operation, *arguments)
    assert ran.code == 2 and ran.line
    assert contents(tmp_path, without=()) == before


OVERWRITING = {**WRITING, "export": [], "dedupe": []}


@pytest.mark.parametrize("operation", OVERWRITING)
@pytest.mark.parametrize("out", [".", "..", "../here/deeper/..", "../link"])
def test_the_current_directory_is_not_replaced(
    operation: str, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _exported(tmp_path / "source") if operation == "dedupe" else taken(tmp_path / "source")
    here = taken(tmp_path / "around" / "here")
    (here / "deeper").mkdir()
    (tmp_path / "around" / "link").symlink_to("here")
    before = contents(tmp_path / "around", without=())
    monkeypatch.chdir(here)
    ran = vocabsurgeon(operation, source, out, *OVERWRITING[operation], "--overwrite")
    assert ran.code == 2 and ran.line and "bug" not in ran.line
    assert contents(tmp_path / "around", without=()) == before and sorted(os.listdir(tmp_path)) == ["around", "source"]


@pytest.mark.parametrize("operation", OVERWRITING)
def test_documents_are_not_replaced(operation: str, tmp_path: Path) -> None:
    source = _exported(tmp_path / "source") if operation == "dedupe" else taken(tmp_path / "source")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.docx").write_text("mine")
    ran = vocabsurgeon(operation, source, tmp_path / "out", *OVERWRITING[operation], "--overwrite")
    assert ran.code == 2 and "thesis.docx" in ran.line
    assert (tmp_path / "out" / "thesis.docx").read_text() == "mine" and sorted(os.listdir(tmp_path)) == [
        "out",
        "source",
    ]


def _exported(folder: Path) -> Path:
    optimum_like(folder)
    return folder


@pytest.mark.parametrize("out", ["", "a\0b", "/", "/dev/null", "/proc/x/y", "x" * 300], ids=lambda out: repr(out[:9]))
def test_out_that_cannot_be_a_folder_is_refused(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = vocabsurgeon("untie", shelved(), out)
    assert ran.code == 2 and ran.line


def test_out_that_is_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    for options in ([], ["--overwrite"]):
        assert vocabsurgeon("untie", shelved(), tmp_path / "out", *options).code == 2
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    ran = vocabsurgeon("untie", shelved(), tmp_path / "locked" / "out")
    assert ran.code == 2 and "Permission" in ran.line


def _limited(size: int):  # type: ignore[no-untyped-def]
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [0, 5_000, 25_000])
def test_a_full_disk_leaves_nothing(size: int, tmp_path: Path) -> None:
    source, out = taken(tmp_path / "source"), tmp_path / "out"
    before = contents(source, without=())
    ran = in_process(["untie", source, out], preexec_fn=_limited(size))
    assert ran.code == 2 and "cannot be written" in ran.line, ran.stderr
    assert leftovers(out) == [] and contents(source, without=()) == before


def test_too_little_room_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from types import SimpleNamespace

    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    ran = vocabsurgeon("untie", shelved(), tmp_path / "out")
    assert ran.code == 2 and "no room" in ran.line and leftovers(tmp_path / "out") == []
