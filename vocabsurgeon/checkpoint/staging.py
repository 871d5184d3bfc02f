"""A folder that appears complete or not at all: stage beside OUT, fsync, rename, roll back. Only this renames."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from pathlib import Path
from threading import Thread
from types import TracebackType

from vocabsurgeon.checkpoint.replaceable import why_not_replaceable
from vocabsurgeon.errors import OutputError, UsageError, VocabsurgeonError

_FOREIGN = "--overwrite replaces nothing but checkpoints and exports: choose another OUT"


class StagedDirectory:
    """A temporary sibling of OUT that becomes OUT on `commit()`, and is removed when the block ends without one.

    Use as a context manager and write below `path`. Nothing below OUT exists before the commit; the files get the
    permissions of normal new files. `source` (links resolved) may not be OUT, lie inside it or around it.

    With `overwrite`, an existing OUT that is empty or holds a checkpoint or export (see `replaceable`) is replaced by
    two renames. A crash leaves one of: the old OUT and a sibling `.OUT.staged-*`; no OUT, the old one as
    `.OUT.replaced-*` and the complete new one as `.OUT.staged-*`; the new OUT and a sibling `.OUT.replaced-*`. The old
    content is never lost before the new one bears the name. A failure that is no crash (an error, an interrupt) is
    undone: the old OUT has its name back. (A very long name is cut in siblings.)

    Raises `UsageError` where OUT is no path or overlaps the source, `OutputError` where OUT exists without `overwrite`,
    is nothing that may be replaced, or cannot be written.
    """

    def __init__(self, out: Path | str, *, overwrite: bool = False, source: Path | None = None) -> None:
        self.out = _folder_path(out)
        self.overwrite = overwrite
        if source is not None:
            refuse_overlap(self.out, source)
        self._refuse_existing()
        token = secrets.token_hex(4)
        self.path = self.out.with_name(f"{_short(self.out.name)}.staged-{token}")
        self._replaced = self.out.with_name(f"{_short(self.out.name)}.replaced-{token}")
        self._made_parents: list[Path] = []
        self._flush: _Flush | None = None

    def __enter__(self) -> StagedDirectory:
        try:
            _make_parents(self.out.parent, self._made_parents)
            self.path.mkdir()
        except BaseException as error:
            self._roll_back()
            if isinstance(error, OSError):
                raise output_error(error, self.out) from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._join()
        finally:
            self._roll_back()
        if isinstance(error, OSError):
            raise output_error(error, self.out) from error

    def start_flush(self) -> None:
        """Begin to flush what is written so far, in the background: the disk works while the result is proved."""
        self._flush = _Flush(self.path)
        self._flush.start()

    def commit(self) -> None:
        """Flush every file and folder to the disk, then give the staged folder the name OUT."""
        flush = self._join()
        if flush is not None and flush.error is not None:
            # The kernel tells a failed write-back once: a second fsync would say all is well.
            raise flush.error
        sync_tree(self.path)
        self._refuse_existing()
        try:
            self._rename()
        except BaseException:
            self._undo_renames()
            raise
        self._made_parents = []
        _remove(self._replaced)

    def _rename(self) -> None:
        # Without `overwrite`, a name that another run took since the check is left alone: the rename below fails.
        if self.overwrite and _exists(self.out):
            os.rename(self.out, self._replaced)
        os.rename(self.path, self.out)
        for folder in (self.out, *self._made_parents):
            sync_directory(folder.parent)

    def _undo_renames(self) -> None:
        """Back to before `_rename`, wherever that stopped. If another run took the name OUT meanwhile, it stays."""
        with contextlib.suppress(OSError):
            if not _exists(self.path):
                os.rename(self.out, self.path)
        with contextlib.suppress(OSError):
            if _exists(self._replaced):
                os.rename(self._replaced, self.out)

    def _join(self) -> _Flush | None:
        flush, self._flush = self._flush, None
        if flush is not None:
            flush.join()
        return flush

    def _refuse_existing(self) -> None:
        try:
            exists = _exists(self.out)
        except OSError as error:
            raise output_error(error, self.out) from error
        if exists and not self.overwrite:
            raise OutputError("exists already", where=self.out, hint="choose another OUT or pass --overwrite")
        if exists and (self.out.is_symlink() or not self.out.is_dir()):
            raise OutputError("is not a folder", where=self.out, hint="--overwrite replaces folders only")
        if exists:
            self._refuse_foreign()

    def _refuse_foreign(self) -> None:
        try:
            reason = why_not_replaceable(self.out)
        except OSError as error:
            raise output_error(error, self.out) from error
        if reason is not None:
            raise OutputError(f"is not replaced: it {reason}", where=self.out, hint=_FOREIGN)

    def _roll_back(self) -> None:
        """Remove what is staged, and empty parents that were made. After a commit only what it replaced is left."""
        _remove(self.path)
        with contextlib.suppress(OSError):
            if _exists(self._replaced) and _exists(self.out):
                _remove(self._replaced)
        with contextlib.suppress(OSError):
            for folder in reversed(self._made_parents):
                folder.rmdir()
        self._made_parents = []


def refuse_overlap(out: Path, source: Path) -> None:
    """Raise `UsageError` when OUT is the source, inside it, around it, or holds files its links lead to.

    Links are resolved on both sides.
    """
    real_out, real_source = Path(os.path.realpath(out)), Path(os.path.realpath(source))
    relation = None
    if real_out == real_source:
        relation = "is the source itself"
    elif real_source in real_out.parents:
        relation = f"lies inside the source {source}"
    elif real_out in real_source.parents and os.path.isdir(real_source):
        relation = f"holds the source {source}"
    elif os.path.isdir(real_out) and any(real_out in target.parents for target in _link_targets(real_source)):
        relation = f"holds files of the source {source}, which links to them"
    if relation:
        raise UsageError(f"OUT {relation}", where=out, hint="the source is never written: name a folder elsewhere")


def output_error(error: OSError, where: Path) -> VocabsurgeonError:
    """The operating system's refusal to write, as one line."""
    reason = error.strerror or str(error)
    return OutputError(
        f"cannot be written: {reason}", where=where, hint="nothing was left behind; the source is untouched"
    )


def sync_tree(folder: Path) -> None:
    """fsync every file and folder below `folder`, itself included."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent) / name, os.O_RDONLY)
        sync_directory(Path(parent))


def sync_directory(folder: Path) -> None:
    """fsync the folder's own entries, where the file system can do that to a folder."""
    try:
        _sync(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


class _Flush(Thread):
    """`sync_tree` in the background; `error` is what it failed with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            sync_tree(self.folder)
        except OSError as error:
            self.error = error


def _folder_path(out: Path | str) -> Path:
    if not str(out) or "\x00" in str(out):
        raise UsageError("is not a path", where=out or "OUT", hint="name a folder that does not exist yet")
    path = Path(os.path.abspath(out))
    if not path.name:
        raise UsageError("cannot be OUT", where=path, hint="name a folder that does not exist yet")
    return path


def _short(name: str) -> str:
    """`.name`, cut so that a suffix still fits into a file name."""
    return os.fsdecode(os.fsencode(f".{name}")[:200])


def _link_targets(source: Path) -> list[Path]:
    paths = (Path(parent) / name for parent, folders, files in os.walk(source) for name in (*folders, *files))
    return [Path(os.path.realpath(path)) for path in paths if path.is_symlink()]


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(path: Path) -> bool:
    """Whether the name is taken, be it by a link to nowhere. Raises `OSError` for a name that cannot be."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _make_parents(folder: Path, made: list[Path]) -> None:
    """Create `folder` and what is missing above it, and note in `made` what was created, outermost first."""
    missing = []
    while not os.path.exists(folder):
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another run made it meanwhile
            path.mkdir()
            made.append(path)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
