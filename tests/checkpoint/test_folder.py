"""The files of a folder by name; a hub cache entry's links are followed, no others that leave the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.checkpoints import checkpoint, random_tensor
from vocabsurgeon.checkpoint.folder import list_files
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError


def test_list_files_gives_sorted_relative_names_without_bookkeeping(tmp_path: Path) -> None:
    for name in ("z", "a/b/c", ".git/config", ".cache/x", "sub/__pycache__/x", ".gitattributes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    assert list_files(tmp_path) == (".gitattributes", "a/b/c", "z")


def test_link_inside_the_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "real").touch()
    (tmp_path / "sub" / "link").symlink_to("../real")
    assert list_files(tmp_path) == ("real", "sub/link")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A hub cache entry: every file of the snapshot is a link into `blobs`."""
    entry = tmp_path / "cache" / "models--x--y"
    folder = checkpoint(entry / "snapshots" / "c0ffee", {"a": random_tensor("F32", (8, 2))})
    (entry / "blobs").mkdir()
    for name in ("config.json", "model.safetensors"):
        os.rename(folder / name, entry / "blobs" / f"blob-{name}")
        (folder / name).symlink_to(f"../../blobs/blob-{name}")
    return folder


def test_hub_cache_entry_opens(snapshot: Path) -> None:
    assert Checkpoint.open(snapshot).files == ("config.json", "model.safetensors")


def test_hub_cache_entry_opens_through_links(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(snapshot)
    (tmp_path / "other-disk").symlink_to(tmp_path / "cache")
    assert Checkpoint.open(tmp_path / "model").files
    assert Checkpoint.open(tmp_path / "other-disk" / "models--x--y" / "snapshots" / "c0ffee").files


def test_hub_cache_entry_opens_from_inside(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(snapshot)
    assert Checkpoint.open(".").files


def test_links_into_another_cache_entry_are_refused(snapshot: Path) -> None:
    other = snapshot.parents[2] / "models--z" / "blobs"
    other.mkdir(parents=True)
    (other / "blob").touch()
    (snapshot / "x").symlink_to("../../../models--z/blobs/blob")
    with pytest.raises(CheckpointError, match="out of the folder"):
        list_files(snapshot)


def test_blobs_that_are_a_link_elsewhere_allow_nothing(snapshot: Path, tmp_path: Path) -> None:
    blobs = snapshot.parents[1] / "blobs"
    os.rename(blobs, tmp_path / "elsewhere")
    blobs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="out of the folder"):
        list_files(snapshot)


def test_folder_that_cannot_be_read_is_an_error_not_an_omission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CheckpointError, match="sub: cannot be read"):
        list_files(tmp_path)
