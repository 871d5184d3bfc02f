"""The files of a checkpoint folder by name: which there are, which links are safe. Opens nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vocabsurgeon.errors import CheckpointError

_REPOSITORY_FOLDERS = {".git", ".cache", "__pycache__"}
"""Book-keeping of tools, no part of the checkpoint; neither listed nor carried along."""


def list_files(root: Path) -> tuple[str, ...]:
    """Relative names (with `/`) of every regular file below `root`, sorted.

    Links may point inside `root` or into the `blobs` of the same hub cache entry. Raises `CheckpointError` for a link
    that leads elsewhere or nowhere, for anything that is neither file nor folder, and for a folder that cannot be read.
    """
    names: list[str] = []
    for parent, folders, files in os.walk(root, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if name not in _REPOSITORY_FOLDERS)
        for name in folders:
            _check(root, Path(parent) / name, folder=True)
        for name in files:
            path = Path(parent) / name
            _check(root, path, folder=False)
            names.append(path.relative_to(root).as_posix())
    return tuple(sorted(names))


def bookkeeping_folders(root: Path) -> tuple[str, ...]:
    """Relative names of the folders that `list_files` passes over, sorted."""
    found = []
    for parent, folders, _ in os.walk(root, onerror=_unreadable):
        found += [(Path(parent) / name).relative_to(root).as_posix() for name in _REPOSITORY_FOLDERS & set(folders)]
        folders[:] = [name for name in folders if name not in _REPOSITORY_FOLDERS]
    return tuple(sorted(found))


def _unreadable(error: OSError) -> None:
    raise CheckpointError(f"cannot be read: {error.strerror}", where=error.filename) from error


def _check(root: Path, path: Path, *, folder: bool) -> None:
    name = path.relative_to(root).as_posix()
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise CheckpointError("is a link that leads nowhere", where=name, hint="fetch the file again") from error
    if path.is_symlink():
        if folder:
            raise CheckpointError("is a link to a folder", where=name, hint="replace it with the folder itself")
        _check_target(root, path, name)
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        raise CheckpointError("is neither a file nor a folder", where=name, hint="remove it from the checkpoint")


def _check_target(root: Path, path: Path, name: str) -> None:
    target, real_root = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    allowed = [real_root]
    if real_root.parent.name == "snapshots":
        # Not resolved further: a `blobs` that is itself a link elsewhere allows nothing.
        allowed.append(real_root.parent.parent / "blobs")
    if not any(folder in target.parents for folder in allowed):
        raise CheckpointError(
            f"is a link out of the folder, to {target}", where=name, hint="copy the file here instead"
        )
