"""A folder that appears complete or not at all: stage beside OUT, fsync, rename; roll back on any failure. The only module that renames."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from threading import Thread
from types import TracebackType

from vocabsurgeon.errors import OutputError, UsageError, VocabsurgeonError


class StagedDirectory:
    """A temporary sibling of OUT that becomes OUT on `commit()`, and is removed when the block ends without one.

    Use as a context manager and write below `path`. Nothing below OUT exists before the commit; the files get the
    permissions of normal new files. `source` (links resolved) may not be OUT, lie inside it or around it.

    With `overwrite`, an existing OUT is replaced by two renames. A crash leaves one of: the old OUT and a sibling
    `.OUT.staged-*`; no OUT, the old one as `.OUT.replaced-*` and the complete new one as `.OUT.staged-*`; the new OUT
    and a sibling `.OUT.replaced-*`. The old content is never lost before the new one bears the name.

    Raises `OutputError` where OUT exists without `overwrite`, or its parent cannot be written.
    """

    def __init__(self, out: Path | str, *, overwrite: bool = False, source: Path | None = None) -> None:
        self.out = Path(os.path.abspath(out))
        self.overwrite = overwrite
        if source is not None:
            refuse_overlap(self.out, source)
        self._refuse_existing()
        token = secrets.token_hex(4)
        self.path = self.out.with_name(f".{self.out.name}.staged-{token}")
        self._replaced = self.out.with_name(f".{self.out.name}.replaced-{token}")
        self._made_parents: list[Path] = []
        self._flush: Thread | None = None

    def __enter__(self) -> StagedDirectory:
        try:
            self._made_parents = _make_parents(self.out.parent)
            self.path.mkdir()
        except OSError as error:
            self._roll_back()
            raise output_error(error, self.out) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._join()
        if self.path.exists():
            self._roll_back()
        if isinstance(error, OSError):
            raise output_error(error, self.out) from error

    def start_flush(self) -> None:
        """Begin to flush what is written so far, in the background: the disk works while the result is proved."""
        self._flush = Thread(target=_flush_quietly, args=(self.path,), daemon=True)
        self._flush.start()

    def commit(self) -> None:
        """Flush every file and folder to the disk, then give the staged folder the name OUT."""
        self._join()
        sync_tree(self.path)
        self._refuse_existing()
        if _exists(self.out):
            os.rename(self.out, self._replaced)
        os.rename(self.path, self.out)
        sync_directory(self.out.parent)
        _remove(self._replaced)
        self._made_parents = []

    def _join(self) -> None:
        if self._flush is not None:
            self._flush.join()
            self._flush = None

    def _refuse_existing(self) -> None:
        if not _exists(self.out):
            return
        if not self.overwrite:
            raise OutputError("exists already", where=self.out, hint="choose another OUT or pass --overwrite")
        if self.out.is_symlink() or not self.out.is_dir():
            raise OutputError("is not a folder", where=self.out, hint="--overwrite replaces folders only")

    def _roll_back(self) -> None:
        _remove(self.path)
        for folder in reversed(self._made_parents):
            try:
                folder.rmdir()
            except OSError:
                break
        self._made_parents = []


def refuse_overlap(out: Path, source: Path) -> None:
    """Raise `UsageError` when OUT is the source, inside it, or around it, links resolved."""
    real_out, real_source = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    relation = None
    if real_out == real_source:
        relation = "is the source itself"
    elif real_source in real_out.parents:
        relation = f"lies inside the source {source}"
    elif real_out in real_source.parents and real_source.is_dir():
        relation = f"holds the source {source}"
    if relation:
        raise UsageError(f"OUT {relation}", where=out, hint="the source is never written: name a folder elsewhere")


def output_error(error: OSError, where: Path) -> VocabsurgeonError:
    """The operating system's refusal to write, as one line."""
    reason = error.strerror or str(error)
    return OutputError(f"cannot be written: {reason}", where=where, hint="nothing was left behind; the source is untouched")


def sync_tree(folder: Path) -> None:
    """fsync every file and folder below `folder`, itself included."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent) / name, os.O_RDONLY)
        sync_directory(Path(parent))


def _flush_quietly(folder: Path) -> None:
    """A failed early flush is not the last word: `commit` flushes again and reports."""
    with contextlib.suppress(OSError):
        sync_tree(folder)


def sync_directory(folder: Path) -> None:
    """fsync the folder's own entries."""
    _sync(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _make_parents(folder: Path) -> list[Path]:
    """Create `folder` and what is missing above it; return what was created, outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir()
    return missing[::-1]


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
