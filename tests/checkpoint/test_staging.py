"""StagedDirectory: OUT appears complete or not at all, and what was there before comes back when anything fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.errors import OutputError, UsageError, VocabsurgeonError


def _tree(folder: Path) -> list[str]:
    """Everything below `folder`, folders with a slash."""
    return sorted(
        path.relative_to(folder).as_posix() + ("/" if path.is_dir() and not path.is_symlink() else "")
        for path in folder.rglob("*")
    )


def _run(out: Path, content: str = "new", **options: Any) -> None:
    with StagedDirectory(out, **options) as staged:
        (staged.path / "sub").mkdir()
        (staged.path / "sub" / "file").write_text(content)
        staged.start_flush()
        staged.commit()


@pytest.fixture
def existing(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tokenizer.json").write_text("old")
    return tmp_path / "out"


def test_nothing_bears_the_name_before_the_commit(tmp_path: Path) -> None:
    with StagedDirectory(tmp_path / "out") as staged:
        (staged.path / "file").write_text("x")
        assert staged.path.parent == tmp_path and staged.path.name.startswith(".out.staged-")
        assert _tree(tmp_path) == [f"{staged.path.name}/", f"{staged.path.name}/file"]
        staged.commit()
    assert _tree(tmp_path) == ["out/", "out/file"]


def test_parents_are_made_and_kept(tmp_path: Path) -> None:
    _run(tmp_path / "a" / "b" / "out")
    assert _tree(tmp_path) == ["a/", "a/b/", "a/b/out/", "a/b/out/sub/", "a/b/out/sub/file"]


def test_block_without_commit_leaves_nothing_not_even_parents(tmp_path: Path) -> None:
    with StagedDirectory(tmp_path / "a" / "b" / "out") as staged:
        (staged.path / "file").write_text("x")
    assert _tree(tmp_path) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, MemoryError])
def test_exception_leaves_nothing_and_passes_through(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), StagedDirectory(tmp_path / "a" / "out") as staged:
        (staged.path / "file").write_text("x")
        staged.start_flush()
        raise error
    assert _tree(tmp_path) == []


def test_parents_with_other_things_in_them_stay(tmp_path: Path) -> None:
    with StagedDirectory(tmp_path / "a" / "b" / "out"):
        (tmp_path / "a" / "mine").touch()
    assert _tree(tmp_path) == ["a/", "a/mine"]


def test_every_file_and_folder_is_flushed_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def renamed(old: Path, new: Path) -> None:
        events.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    with StagedDirectory(tmp_path / "made" / "out") as staged:
        (staged.path / "sub").mkdir()
        (staged.path / "sub" / "file").write_text("x")
        staged.commit()
    before, after = events[: events.index("rename")], events[events.index("rename") + 1 :]
    assert set(before) == {staged.path.name, "sub", "file"}
    assert after == ["made", tmp_path.name]


def test_existing_out_is_refused_and_kept(existing: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"exists already.*--overwrite"):
        _run(existing)
    assert _tree(tmp_path) == ["out/", "out/tokenizer.json"]


def test_overwrite_replaces_the_folder_and_leaves_no_sibling(existing: Path, tmp_path: Path) -> None:
    _run(existing, overwrite=True)
    assert _tree(tmp_path) == ["out/", "out/sub/", "out/sub/file"]


def test_overwrite_without_commit_keeps_the_old(existing: Path, tmp_path: Path) -> None:
    with StagedDirectory(existing, overwrite=True) as staged:
        (staged.path / "file").touch()
    assert _tree(tmp_path) == ["out/", "out/tokenizer.json"]


def test_overwrite_of_nothing_is_a_plain_run(tmp_path: Path) -> None:
    _run(tmp_path / "out", overwrite=True)
    assert _tree(tmp_path) == ["out/", "out/sub/", "out/sub/file"]


BLOCKED: dict[str, Callable[[Path], Any]] = {
    "a file": Path.touch,
    "a link to nowhere": lambda out: out.symlink_to("nowhere"),
    "a link to itself": lambda out: out.symlink_to(out.name),
    "a link to a folder": lambda out: out.symlink_to("."),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("make", BLOCKED.values(), ids=list(BLOCKED))
def test_out_that_is_no_folder_is_refused_and_kept(
    tmp_path: Path, make: Callable[[Path], Any], overwrite: bool
) -> None:
    make(tmp_path / "out")
    before = os.lstat(tmp_path / "out")
    with pytest.raises(OutputError, match="not a folder" if overwrite else "exists already"):
        _run(tmp_path / "out", overwrite=overwrite)
    assert os.listdir(tmp_path) == ["out"] and os.lstat(tmp_path / "out").st_ino == before.st_ino


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 300, "File name too long"),
        ("y/" * 2500, "File name too long"),
        ("file/out", "Not a directory"),
        ("file/deeper/out", "Not a directory"),
        ("nowhere/out", "cannot be written"),
        ("a\0b", "not a path"),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_path_that_cannot_be_is_one_line_at_once(tmp_path: Path, name: str, reason: str, overwrite: bool) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("does-not-exist")
    with pytest.raises(VocabsurgeonError, match=reason) as caught:
        StagedDirectory(f"{tmp_path}/{name}", overwrite=overwrite).__enter__()
    assert str(caught.value).isprintable() and caught.value.exit_code == 2
    assert _tree(tmp_path) == ["file", "nowhere"]


@pytest.mark.parametrize("out", ["", "/"])
def test_no_name_at_all_is_a_usage_error(out: str) -> None:
    with pytest.raises(UsageError):
        StagedDirectory(out, overwrite=True)


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127, "😀" * 63])
def test_longest_possible_name_works(tmp_path: Path, name: str) -> None:
    _run(tmp_path / name)
    (tmp_path / name / "sub" / "file").unlink()
    _run(tmp_path / name, overwrite=True)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_parent_that_is_read_only_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        _run(tmp_path / "out")


def test_parents_made_before_a_failure_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = Path.mkdir

    def refuse(path: Path, *arguments: Any, **options: Any) -> None:
        if path.name == "b":
            raise PermissionError(13, "Permission denied")
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        _run(tmp_path / "a" / "b" / "out")
    assert _tree(tmp_path) == []


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "home" / "source" / "sub").mkdir(parents=True)
    (tmp_path / "home" / "source" / "file").touch()
    return tmp_path / "home" / "source"


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("home/source", "is the source itself"),
        ("home/source/../source", "is the source itself"),
        ("home/source/out", "lies inside"),
        ("home/source/sub", "lies inside"),
        ("home/source/new/out", "lies inside"),
        ("home", "holds the source"),
        ("link", "is the source itself"),
        ("link/out", "lies inside"),
    ],
)
def test_out_that_overlaps_the_source_is_refused(tmp_path: Path, source: Path, out: str, reason: str) -> None:
    (tmp_path / "link").symlink_to(source)
    before = _tree(tmp_path)
    with pytest.raises(UsageError, match=reason):
        _run(tmp_path / out, source=source, overwrite=True)
    with pytest.raises(UsageError, match=reason):
        _run(source.parent.parent / out, source=tmp_path / "link", overwrite=True)
    assert _tree(tmp_path) == before


def test_out_that_holds_what_the_source_links_to_is_refused(tmp_path: Path, source: Path) -> None:
    (tmp_path / "blobs" / "deep").mkdir(parents=True)
    (tmp_path / "blobs" / "deep" / "blob").touch()
    (source / "linked").symlink_to("../../blobs/deep/blob")
    with pytest.raises(UsageError, match="links to them"):
        _run(tmp_path / "blobs", source=source, overwrite=True)


def test_out_beside_the_source_is_fine(tmp_path: Path, source: Path) -> None:
    _run(tmp_path / "home" / "source-2", source=source)
    _run(tmp_path / "home" / "out", source=source)
    assert sorted(os.listdir(tmp_path / "home")) == ["out", "source", "source-2"]


def test_of_many_runs_at_once_one_wins_and_the_others_get_one_line(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    outcomes: list[int | str] = []

    def run(number: int) -> None:
        try:
            with StagedDirectory(tmp_path / "a" / "out") as staged:
                (staged.path / "file").write_text(str(number))
                barrier.wait(10)
                staged.commit()
            outcomes.append(number)
        except OutputError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    [winner] = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert len(outcomes) == 8 and (tmp_path / "a" / "out" / "file").read_text() == str(winner)
    assert _tree(tmp_path) == ["a/", "a/out/", "a/out/file"]


def test_out_taken_at_the_last_moment_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StagedDirectory, "_refuse_existing", lambda self: None)
    with pytest.raises(OutputError, match="not empty"), StagedDirectory(tmp_path / "out") as staged:
        (staged.path / "file").write_text("mine")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "file").write_text("theirs")
        staged.commit()
    assert (tmp_path / "out" / "file").read_text() == "theirs" and os.listdir(tmp_path) == ["out"]
