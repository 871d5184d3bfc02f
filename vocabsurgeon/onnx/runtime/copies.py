"""How many copies of one table another process holds in memory: found by looking for pieces of it there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.tensors import StoredTensor

Array = np.ndarray[Any, Any]
_SIDE = 16
"""Elements of a piece; also the panel that onnxruntime packs a matrix in, so pieces lie whole in packed copies."""
_PIECES = 3
_BLOCK = 1 << 24
_NUMPY = {"FLOAT": np.float32, "FLOAT16": np.float16}


@dataclass(frozen=True)
class Region:
    """A stretch of a process's memory. `file`: what it maps, None for anonymous memory. `resident` bytes of it."""

    start: int
    end: int
    file: str | None
    resident: int


def count_copies(process: int, table: StoredTensor) -> int | None:
    """How often `table [V, D]` lies in the memory of `process`: as it is, transposed, or packed for products.

    A float16 table is looked for in float32 too, to which a session may convert it. Counted are anonymous memory and
    maps of the table's file. None where the system does not let us look, the table is too small or of another type, or
    its rows are too uniform to tell; where nothing is found, for somewhere it must be.
    """
    layouts = _pieces(table)
    if layouts is None:
        return None
    try:
        regions = [region for region in _regions(process, table.path) if _can_hold(region, table.nbytes)]
        found = _search(process, regions, [piece for layout in layouts for piece in layout])
    except OSError:
        return None
    return sum(min(found[piece] for piece in layout) for layout in layouts) or None


def largest_table(tensors: tuple[StoredTensor, ...]) -> StoredTensor | None:
    """The largest matrix that tokens are looked up in, None where the graph has none.

    Where nothing is looked up directly, one that is turned for it (onnxruntime-genai's builder) or for a product.
    """
    matrices = [tensor for tensor in tensors if len(tensor.shape) == 2]
    tables = [tensor for tensor in matrices if any("Gather" in use for use in tensor.uses)]
    turned = [tensor for tensor in matrices if "Transpose" in tensor.uses]
    return max(tables or turned, key=lambda tensor: tensor.nbytes, default=None)


def _pieces(table: StoredTensor) -> list[list[bytes]] | None:
    """Pieces of the table as bytes, grouped by layout: along rows and down columns, in each type."""
    kind = _NUMPY.get(table.element.name)
    rows, columns = table.shape
    if kind is None or rows < 2 * _SIDE or columns < _SIDE:
        return None
    along: list[Array] = []
    down: list[Array] = []
    with OpenFiles() as files:
        for row in np.unique(np.linspace(1, rows // _SIDE - 1, _PIECES * 8).astype(int) * _SIDE):
            if len(along) == _PIECES:
                break
            block = _rows(table, files, int(row), kind)
            across, below = block[0, :_SIDE], block[:, columns // 2]
            if len(np.unique(across)) > _SIDE // 2 and len(np.unique(below)) > _SIDE // 2:
                along.append(across)
                down.append(below)
    if len(along) < _PIECES:
        return None
    widths = {np.dtype(kind), np.dtype(np.float32)}
    return [[piece.astype(width).tobytes() for piece in pieces] for pieces in (along, down) for width in widths]


def _rows(table: StoredTensor, files: OpenFiles, first: int, kind: Any) -> Array:
    """`[16, D]`, from row `first`."""
    width = table.nbytes // table.shape[0]
    raw = table.read(files[table], first * width, _SIDE * width)
    return np.frombuffer(raw.tobytes(), kind).reshape(_SIDE, -1)


def _can_hold(region: Region, nbytes: int) -> bool:
    """Whether a whole table can lie there: of a map, pages may not have been read yet."""
    return (region.resident if region.file is None else region.end - region.start) >= nbytes


def _regions(process: int, data: Path) -> Iterator[Region]:
    """Anonymous memory and maps of `data`."""
    real, head = os.path.realpath(data), ""
    for line in Path(f"/proc/{process}/smaps").read_text(errors="surrogateescape").splitlines():
        if "-" in line.split(" ", 1)[0]:
            head = line
        elif line.startswith("Rss:"):
            place, rights, _, _, inode, *name = head.split(maxsplit=5)
            start, end = (int(part, 16) for part in place.split("-"))
            file = name[0] if name and inode != "0" else None
            if "r" in rights and file in (None, real) and not (name and name[0].startswith("[v")):
                yield Region(start, end, file, int(line.split()[1]) * 1024)


def _search(process: int, regions: list[Region], pieces: list[bytes]) -> dict[bytes, int]:
    """How often each piece lies in the regions."""
    counts = dict.fromkeys(pieces, 0)
    overlap = max(map(len, pieces)) - 1
    descriptor = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    try:
        for region in regions:
            for start in range(region.start, region.end, _BLOCK):
                block = os.pread(descriptor, min(_BLOCK + overlap, region.end - start), start)
                for piece in counts:
                    counts[piece] += sum(at < _BLOCK for at in _places(block, piece))
    finally:
        os.close(descriptor)
    return counts


def _places(block: bytes, piece: bytes) -> Iterator[int]:
    at = block.find(piece)
    while at >= 0:
        yield at
        at = block.find(piece, at + 1)
