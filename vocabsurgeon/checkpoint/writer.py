"""Edits → files: streams byte ranges from source to result in constant memory. Untouched tensors are never decoded."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vocabsurgeon.checkpoint.edits import (
    CopyTensor,
    FileEdit,
    MeanOfTensors,
    TensorEdit,
    WriteFile,
    WriteRows,
    WriteValues,
)
from vocabsurgeon.checkpoint.evaluate import RowEvaluator, mean_blocks, round_once, scaled_blocks
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.layout import Segment, ShardLayout, lay_out, total_size, weight_map
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.rows import BLOCK_BYTES, TableReader, fill, open_source
from vocabsurgeon.checkpoint.shards import INDEX, SINGLE
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.write_back import PART_BYTES, begin_write_back
from vocabsurgeon.errors import OutputError


def write(
    source: Checkpoint,
    tensor_edits: Sequence[TensorEdit],
    file_edits: Sequence[FileEdit],
    folder: Path,
    *,
    link: bool = False,
    progress: Progress = silent,
    finished: Callable[[str], None] = lambda name: None,
) -> None:
    """Write the edited checkpoint into the existing, empty `folder`.

    Files that no edit concerns are copied byte for byte, or hard-linked with `link` (copied where the file system
    cannot link). `finished` is told each file as soon as it is whole. Raises `OutputError` where the disk has too
    little room, `CheckpointError` where the source cannot be read, `OSError` (from writing) as the system gives it.
    """
    changed = bool(tensor_edits or file_edits)
    layouts = lay_out(source.shards, tensor_edits, new_shard=link, convert=changed)
    converted = changed and source.shards.pickled
    edited = bool(tensor_edits) or (changed and source.shards.unindexed)
    edits = (*file_edits, *_index_edits(source, layouts, edited, converted))
    copies = _carried(source, edits, layouts)
    _require_room(source, layouts, copies, folder, link)
    meter = _Meter(progress, _weight_bytes(layouts))
    for name in copies:
        _carry(source.path(name), folder / name, link)
        finished(name)
    for edit in edits:
        if isinstance(edit, WriteFile):
            _new_parent(folder / edit.name).write_bytes(edit.content)
            finished(edit.name)
    for layout in layouts:
        _write_shard(source, layout, folder / layout.name, link, meter)
        finished(layout.name)


@dataclass
class _Meter:
    """Counts written bytes for the progress display."""

    progress: Progress
    total: int
    done: int = 0

    def add(self, count: int) -> None:
        self.done += count
        self.progress("write", self.done, self.total)


def _weight_bytes(layouts: Iterable[ShardLayout]) -> int:
    return sum(layout.size for layout in layouts)


def _carried(source: Checkpoint, edits: Iterable[FileEdit], layouts: Iterable[ShardLayout]) -> list[str]:
    """Every file of the source that is neither weights, nor edited, nor omitted, nor the record of an earlier run."""
    taken = {edit.name for edit in edits} | set(source.shards.headers) | {RECORD}
    taken |= {layout.name for layout in layouts}
    return [name for name in source.files if name not in taken]


def _index_edits(source: Checkpoint, layouts: Sequence[ShardLayout], edited: bool, converted: bool) -> list[FileEdit]:
    """The index, where weights change; of a numbered set without one, where anything does: readers need it."""
    index = source.shards.index
    if not (edited or converted) or (index is None and [layout.name for layout in layouts] == [SINGLE]):
        return []
    if index is None:
        index = JsonText.parse('{\n  "metadata": {},\n  "weight_map": {}\n}\n', INDEX)
    if converted:  # every entry changes: one edit, not one for each
        index = index.set(("weight_map",), weight_map(layouts))
    return [WriteFile(INDEX, edited_index(index, layouts).text.encode())]


def edited_index(index: JsonText, layouts: Sequence[ShardLayout]) -> JsonText:
    """The index document for the result: keys added and removed, `total_size` exact, every other byte kept."""
    wanted, stated = weight_map(layouts), index.value["weight_map"]
    for key in stated:
        index = index if key in wanted else index.remove(("weight_map", key))
    index = index.update(("weight_map",), {key: name for key, name in wanted.items() if stated.get(key) != name})
    if not isinstance(index.value.get("metadata"), dict):
        index = index.set(("metadata",), {})
    if "total_parameters" in index.value["metadata"]:
        count = sum(_elements(segment) for layout in layouts for segment in layout.segments)
        index = index.set(("metadata", "total_parameters"), count)
    return index.set(("metadata", "total_size"), total_size(layouts))


def _elements(segment: Segment) -> int:
    return segment.info.nbytes * 8 // segment.info.dtype.bits


def _require_room(
    source: Checkpoint, layouts: Sequence[ShardLayout], copies: Sequence[str], folder: Path, link: bool
) -> None:
    needed = sum(layout.size for layout in layouts if not (link and layout.copy_of))
    needed += 0 if link else sum(source.path(name).stat().st_size for name in copies)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(
            f"has no room: {needed:,} bytes are needed, {free:,} are free",
            where=folder.parent,
            hint="free some space or name an OUT on another disk",
        )


def _new_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _carry(source: Path, target: Path, link: bool) -> None:
    """Copy the content (permissions become those of a new file), or link it."""
    _new_parent(target)
    if link and _linked(source, target):
        return
    with open_source(source) as read, open(target, "xb", buffering=0) as written:
        _copy(read.fileno(), written.fileno(), 0, os.fstat(read.fileno()).st_size, source)


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        return False
    return True


def _write_shard(source: Checkpoint, layout: ShardLayout, target: Path, link: bool, meter: _Meter) -> None:
    if layout.copy_of is not None:
        _carry(source.path(layout.copy_of), target, link)
        meter.add(layout.size)
        return
    with open(target, "xb", buffering=0) as written:
        _write_all(written.fileno(), layout.header)
        for segment in layout.segments:
            for count in _write_segment(source, segment, written.fileno()):
                meter.add(count)


def _write_segment(source: Checkpoint, segment: Segment, target: int) -> Iterator[int]:
    """Write one tensor; yields the bytes of each part."""
    path = source.path(segment.source.file)
    with open_source(path) as file:
        if segment.edit is None and segment.source.order:
            yield from _write_kept(source.rows(segment.source.key), 0, segment.source.rows, file.fileno(), target)
        elif segment.edit is None:
            yield _copy(file.fileno(), target, segment.source.start, segment.source.nbytes, path)
        elif isinstance(segment.edit, MeanOfTensors):
            yield from _write_mean(source, segment.edit, target)
        elif isinstance(segment.edit, CopyTensor):
            yield from _write_scaled(source, segment.edit, target)
        elif isinstance(segment.edit, WriteValues):
            values = np.array(segment.edit.values, np.float64)
            yield _write_all(target, round_once(values, source.rows(segment.edit.key).dtype).tobytes())
        elif segment.edit.axis:
            yield _write_all(target, _edited_whole(source, segment.edit))
        else:
            yield from _write_rows(source.rows(segment.source.key), segment.edit, file.fileno(), target)


def _write_mean(source: Checkpoint, edit: MeanOfTensors, target: int) -> Iterator[int]:
    first, second = (source.rows(key) for key in edit.sources)
    for _, rows in mean_blocks(first, second, source.rows(edit.key).dtype):
        yield _write_all(target, rows.tobytes())


def _write_scaled(source: Checkpoint, edit: CopyTensor, target: int) -> Iterator[int]:
    for _, rows in scaled_blocks(source.rows(edit.source), edit.factor):
        yield _write_all(target, rows.tobytes())


def _write_rows(table: TableReader, edit: WriteRows, source: int, target: int) -> Iterator[int]:
    """Old rows as byte ranges, edited rows evaluated; rows must be named in full from the old size up."""
    evaluator = RowEvaluator(table)
    old_rows, position = table.shape[0], 0
    for number, expression in sorted(edit.rows, key=lambda row: row[0]):
        if position < min(number, old_rows):
            yield from _write_kept(table, position, min(number, old_rows), source, target)
        yield _write_all(target, evaluator.row(expression, number).tobytes())
        position = number + 1
    if position < old_rows:
        yield from _write_kept(table, position, old_rows, source, target)


def _write_kept(table: TableReader, start: int, stop: int, source: int, target: int) -> Iterator[int]:
    """Rows `start` to `stop` of the open file `source`: one byte range, or gathered where they lie in another order."""
    row_bytes = table.shape[1] * table.info.dtype.bits // 8
    if table.info.order is None:
        yield _copy(source, target, table.info.start + start * row_bytes, (stop - start) * row_bytes, table.path)
        return
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for row in range(start, stop, step):
        count = _write_all(target, table.block(row, min(row + step, stop)).tobytes())
        begin_write_back(target, count)
        yield count


def _edited_whole(source: Checkpoint, edit: WriteRows) -> bytes:
    """A small tensor whose rows run along another axis, edited in memory."""
    table = source.rows(edit.key, edit.axis)
    evaluator = RowEvaluator(table)
    old_rows, width = table.shape
    rows = np.zeros((edit.size, width), table.dtype)
    rows[:old_rows] = table.block(0, old_rows)
    for number, expression in edit.rows:
        rows[number] = evaluator.row(expression, number)
    shape = table.info.shape
    moved = rows.reshape(edit.size, *shape[: edit.axis], *shape[edit.axis + 1 :])
    return np.moveaxis(moved, 0, edit.axis).tobytes()


def _write_all(target: int, data: bytes | memoryview) -> int:
    view = memoryview(data)
    while len(view):
        view = view[os.write(target, view) :]
    return len(data)


def _copy(source: int, target: int, offset: int, count: int, path: Path) -> int:
    """Append `count` bytes from `offset` of `source` to `target`, inside the kernel where it can."""
    done = _copy_in_kernel(source, target, offset, count)
    buffer = bytearray(min(BLOCK_BYTES, count - done))
    while done < count:
        view = memoryview(buffer)[: min(len(buffer), count - done)]
        fill(source, offset + done, view, path)
        done += _write_all(target, view)
        begin_write_back(target, len(view))
    return count


def _copy_in_kernel(source: int, target: int, offset: int, count: int) -> int:
    """`copy_file_range` as far as it goes: not every system and pair of file systems has it.

    Of an input/output error it does not say on which side; the plain copy that follows does.
    """
    done = 0
    try:
        while done < count and hasattr(os, "copy_file_range"):
            moved = os.copy_file_range(source, target, min(count - done, PART_BYTES), offset_src=offset + done)
            if moved == 0:
                break
            done += moved
            begin_write_back(target, moved)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
    return done


_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
