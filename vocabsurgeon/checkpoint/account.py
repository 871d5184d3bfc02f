"""The account of a checkpoint folder: what each file is, and what becomes of it in a result. Reads headers at most."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vocabsurgeon.checkpoint.edits import FileEdit, OmitFile, TensorEdit, WriteFile, WriteRows
from vocabsurgeon.checkpoint.file_kinds import (
    COPY,
    NAMED_ALIKE,
    OTHER_WEIGHTS,
    VARIANTS,
    FileKind,
    FileRow,
    fits,
    row_of,
)
from vocabsurgeon.checkpoint.folder import bookkeeping_folders
from vocabsurgeon.checkpoint.header import TensorInfo, read_header
from vocabsurgeon.checkpoint.pickled.read import read_pickled
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import VocabsurgeonError

Fate = Literal["kept", "changed", "added", "left out", "stale"]


@dataclass(frozen=True)
class FileAccount:
    """One file: what it is, and what becomes of it.

    `fate`: `kept` byte for byte, `changed`, `added`, `left out`, or `stale`: carried byte for byte though it still says
    what was true before. `reason` says why, where it is left out, stale or not understood.
    """

    file: str
    kind: FileKind
    fate: Fate
    reason: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """An entry of `files` in a report."""
        return {"file": self.file, "kind": str(self.kind), "fate": self.fate, "reason": self.reason}


@dataclass(frozen=True)
class Change:
    """What of a checkpoint an operation changes, as far as other files could still say the opposite."""

    weights: bool
    tokens: bool
    rows: bool
    """Whether a table gets another number of rows."""


def change_of(
    tensor_edits: Sequence[TensorEdit], written: Collection[str], tensors: Mapping[str, tuple[int, ...]]
) -> Change:
    """The change that `tensor_edits` and the files `written` make; `tensors`: key → shape before."""
    rows = any(isinstance(edit, WriteRows) and tensors[edit.key][edit.axis] != edit.size for edit in tensor_edits)
    tokens = any(row_of(name).kind is FileKind.TOKENIZER for name in written)
    return Change(bool(tensor_edits), tokens, rows)


def older_copies(source: Checkpoint, *, weights_change: bool) -> tuple[OmitFile, ...]:
    """What a changed result leaves out: older copies of the model's own weights, where those change, and weights in
    torch's own format, which are always written as safetensors. Weights that are read are never among it."""
    read = source.shards.files
    converted = tuple(OmitFile(name, _CONVERTED) for name in read if source.shards.pickled)
    others = (name for name in source.files if name not in read) if weights_change else ()
    rows = ((name, _row_in(source, name)) for name in others)
    return (*converted, *(OmitFile(name, row.reason) for name, row in rows if row.kind is FileKind.WEIGHTS_COPY))


def account(
    source: Checkpoint, tensor_edits: Sequence[TensorEdit] = (), file_edits: Sequence[FileEdit] = ()
) -> tuple[FileAccount, ...]:
    """Every file of `source` and every file that a result of the edits has beside, by name, each with its fate."""
    written = {edit.name for edit in file_edits if isinstance(edit, WriteFile)}
    omitted = {edit.name: edit.reason for edit in file_edits if isinstance(edit, OmitFile)}
    change = change_of(tensor_edits, written, {key: info.shape for key, info in source.tensors.items()})
    told = [_told(source, name, change, written, omitted) for name in source.files if name != RECORD]
    told += [FileAccount(name, row_of(name).kind, "added") for name in written - set(source.files)]
    told += _bookkeeping(source)
    return tuple(sorted(told, key=lambda entry: entry.file))


def completed(files: Sequence[FileAccount], before: Checkpoint, after: Checkpoint) -> tuple[FileAccount, ...]:
    """The account with what only the result shows: weight files and an index that the writer made or did without."""
    held = {entry.file: entry for entry in files}
    for name in after.files:
        if name not in held and name != RECORD:
            held[name] = FileAccount(name, FileKind.WEIGHTS, "added")
    for name in before.files:
        if name in held and not after.has(name) and held[name].fate != "left out":
            held[name] = FileAccount(name, held[name].kind, "left out", "what it held lies elsewhere now")
    return tuple(held[name] for name in sorted(held))


def export_account(source: Checkpoint, written: Collection[str]) -> tuple[FileAccount, ...]:
    """The same for an export, whose graphs and data are the files `written`: weights and what only they need stay
    behind, everything else comes along."""
    told = [_exported(source, name, written) for name in source.files if name != RECORD]
    told += [FileAccount(name, FileKind.EXPORT, "added") for name in written if not source.has(name)]
    told += _bookkeeping(source)
    return tuple(sorted(told, key=lambda entry: entry.file))


def _bookkeeping(source: Checkpoint) -> Iterator[FileAccount]:
    reason = "is no part of the checkpoint"
    for name in bookkeeping_folders(source.root):
        yield FileAccount(f"{name}/", FileKind.BOOKKEEPING, "left out", reason)


def _exported(source: Checkpoint, name: str, written: Collection[str]) -> FileAccount:
    row = _row_in(source, name)
    if name in source.shards.files:
        return FileAccount(name, FileKind.WEIGHTS, "left out", "is what the graphs hold")
    if name in written:
        return FileAccount(name, row.kind, "left out", "the export has a file of that name")
    if not row.with_export:
        return FileAccount(name, row.kind, "left out", f"is of no use to a graph ({row.kind})")
    return FileAccount(name, row.kind, "kept", row.reason if row.kind is FileKind.UNKNOWN else None)


def _told(
    source: Checkpoint, name: str, change: Change, written: Collection[str], omitted: Mapping[str, str]
) -> FileAccount:
    row = _row_in(source, name)
    if name in omitted:
        return FileAccount(name, row.kind, "left out", omitted[name])
    if name in source.shards.files:
        return FileAccount(name, FileKind.WEIGHTS, "changed" if change.weights else "kept")
    if name in written:
        return FileAccount(name, row.kind, "changed")
    if any(getattr(change, what) for what in row.stale_if):
        return FileAccount(name, row.kind, "stale", row.reason)
    return FileAccount(name, row.kind, "kept", row.reason if row.kind is FileKind.UNKNOWN else None)


def _row_in(source: Checkpoint, name: str) -> FileRow:
    """The row of `name`. Of weights beside the model's, what they hold counts, not that they are called alike."""
    row = row_of(name)
    if "/" in name or row.kind not in (FileKind.WEIGHTS_COPY, FileKind.OTHER_WEIGHTS):
        return row
    if row.kind is FileKind.OTHER_WEIGHTS:
        return COPY if name.endswith(".safetensors") and _repeats(source, _held(source, name)) else row
    if not any(fits(name, pattern) for pattern in NAMED_ALIKE):
        return row
    held = _held(source, name)
    if held is None:  # what a reader would ask for by that name is taken for it
        return row if any(fits(name, pattern) for pattern in VARIANTS) else OTHER_WEIGHTS
    return row if _same_modules(source, held) else OTHER_WEIGHTS


def _held(source: Checkpoint, name: str) -> tuple[TensorInfo, ...] | None:
    """The tensors in weight file `name`; None where it cannot be read."""
    read = read_header if name.endswith(".safetensors") else read_pickled
    try:
        return read(source.path(name), name).tensors
    except VocabsurgeonError:
        return None


def _repeats(source: Checkpoint, held: Sequence[TensorInfo] | None) -> bool:
    known = [info.key in source.tensors and source.tensors[info.key].shape == info.shape for info in held or ()]
    return sum(known) * 2 > len(known)


def _same_modules(source: Checkpoint, held: Sequence[TensorInfo]) -> bool:
    """Whether most tensors lie in modules of the model: a quantized copy calls the tensors in them otherwise."""
    modules = {key.rpartition(".")[0] for key in source.tensors}
    return sum(info.key.rpartition(".")[0] in modules for info in held) * 2 > len(held)


_CONVERTED = "is written as safetensors"
