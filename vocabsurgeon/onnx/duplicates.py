"""Content identity: which tensors hold the same numbers, equal or transposed. Compares bits in blocks of constant size.

Quantized and rounded twins are `twins`'; transposes of tensors with more than two real dimensions neither.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.rows import BLOCK_BYTES
from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.samples import flat_key, matrix_key, matrix_shape
from vocabsurgeon.onnx.tensors import StoredTensor

TILE_SIDE = 2048
"""Least rows and columns of a tile where the matrix has them: long enough runs for disk speed in both directions."""

CACHE_SIDE = 128
"""Rows and columns of the pieces that a tile is compared in: read across, a larger one leaves the cache."""


@dataclass(frozen=True)
class Duplicate:
    """Tensors with one content in several places. `relation` to the first: `equal` or `transposed`, or, at another
    precision (see `twins`), `cast` or `quantized`."""

    tensors: tuple[StoredTensor, ...]
    relation: str

    @property
    def exact(self) -> bool:
        """Whether all hold the same numbers, so that one of them is enough."""
        return self.relation in ("equal", "transposed")

    @property
    def wasted(self) -> int:
        """Bytes that every copy but the first takes."""
        return sum(nbytes for _, _, nbytes in {tensor.place for tensor in self.tensors}) - self.tensors[0].nbytes

    def to_dict(self) -> dict[str, Any]:
        """`{"tensors", "relation", "bytes", "files", "uses"}`; the last two by tensor: its file, who reads it."""
        return {
            "tensors": [tensor.name for tensor in self.tensors],
            "relation": self.relation,
            "bytes": self.wasted,
            "files": {tensor.name: tensor.path.name for tensor in self.tensors},
            "uses": {tensor.name: sorted(set(tensor.uses)) for tensor in self.tensors if tensor.uses},
        }


def find_duplicates(tensors: Sequence[StoredTensor], progress: Progress = silent) -> list[Duplicate]:
    """Every content that lies in more than one place, most wasteful first.

    A content that lies there equal and transposed gives one entry for its equal copies and one that names one tensor of
    either layout, so the bytes of all entries add up to what is wasted. Tensors of one place are one tensor.
    """
    places = list({tensor.place: tensor for tensor in tensors if tensor.nbytes}.values())
    with OpenFiles() as files:
        equal = _classes(places, lambda t: flat_key(t, files), lambda a, b: same_bytes(a, b, files), progress)
        found = [Duplicate(tuple(group), "equal") for group in equal if len(group) > 1]
        firsts = [group[0] for group in equal if matrix_shape(group[0])]
        turned = _classes(firsts, lambda t: matrix_key(t, files), lambda a, b: _transposed(a, b, files), progress)
    found += [Duplicate(tuple(group), "transposed") for group in turned if len(group) > 1]
    return sorted(found, key=lambda duplicate: -duplicate.wasted)


def unique_bytes(tensors: Sequence[StoredTensor], duplicates: Iterable[Duplicate]) -> int:
    """Bytes of all places, each distinct content once."""
    places = {tensor.place for tensor in tensors}
    return sum(nbytes for _, _, nbytes in places) - sum(duplicate.wasted for duplicate in duplicates)


def _classes(
    tensors: Sequence[StoredTensor],
    key: Callable[[StoredTensor], Hashable],
    same: Callable[[StoredTensor, StoredTensor], bool],
    progress: Progress,
) -> list[list[StoredTensor]]:
    """Group tensors by `key`, then by `same` against the first of each class."""
    rough: dict[Hashable, list[list[StoredTensor]]] = {}
    for done, tensor in enumerate(tensors):
        progress("compare", done, len(tensors))
        classes = rough.setdefault(key(tensor), [])
        home = next((group for group in classes if same(group[0], tensor)), None)
        if home is None:
            classes.append([tensor])
        else:
            home.append(tensor)
    return [group for classes in rough.values() for group in classes]


def same_bytes(first: StoredTensor, second: StoredTensor, files: OpenFiles) -> bool:
    """Whether both hold the same bytes, whatever their shapes and types; reads them in blocks."""
    if first.nbytes != second.nbytes:
        return False
    for start in range(0, first.nbytes, BLOCK_BYTES):
        count = min(BLOCK_BYTES, first.nbytes - start)
        if not np.array_equal(first.read(files[first], start, count), second.read(files[second], start, count)):
            return False
    return True


def _transposed(first: StoredTensor, second: StoredTensor, files: OpenFiles) -> bool:
    """Whether `second` is the transpose of `first`, bit for bit, tile by tile."""
    rows, columns = matrix_shape(first) or (0, 0)
    if matrix_shape(second) != (columns, rows):
        return False
    height, width = _tile(rows, columns, first.element.bits // 8)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            box = (top, min(top + height, rows), left, min(left + width, columns))
            upright = read_tile(first, files[first], columns, box)
            lying = read_tile(second, files[second], rows, (box[2], box[3], box[0], box[1]))
            if not _same_turned(upright, lying):
                return False
    return True


def _same_turned(upright: np.ndarray[Any, Any], lying: np.ndarray[Any, Any]) -> bool:
    """Whether tile `lying [w, h, itemsize]` is `upright [h, w, itemsize]` turned, by pieces that fit a cache."""
    itemsize = upright.shape[2]
    if itemsize in (2, 4, 8):
        upright, lying = (tile.view(f"u{itemsize}") for tile in (upright, lying))
    height, width = upright.shape[:2]
    for top in range(0, height, CACHE_SIDE):
        for left in range(0, width, CACHE_SIDE):
            down, right = top + CACHE_SIDE, left + CACHE_SIDE
            if not np.array_equal(upright[top:down, left:right], lying[left:right, top:down].transpose(1, 0, 2)):
                return False
    return True


def _tile(rows: int, columns: int, itemsize: int) -> tuple[int, int]:
    """Height and width of a tile of about `BLOCK_BYTES`."""
    elements = BLOCK_BYTES // itemsize
    width = min(columns, max(TILE_SIDE, elements // rows))
    return min(rows, max(1, elements // width)), width


def read_tile(
    tensor: StoredTensor, descriptor: int, columns: int, box: tuple[int, int, int, int]
) -> np.ndarray[Any, Any]:
    """Rows `box[0]:box[1]`, columns `box[2]:box[3]` of a matrix with `columns` columns, as bytes `[h, w, itemsize]`."""
    top, bottom, left, right = box
    itemsize = tensor.element.bits // 8
    if (left, right) == (0, columns):
        flat = tensor.read(descriptor, top * columns * itemsize, (bottom - top) * columns * itemsize)
        return flat.reshape(bottom - top, columns, itemsize)
    tile = np.empty((bottom - top, right - left, itemsize), np.uint8)
    for row in range(top, bottom):
        tensor.read_into(descriptor, (row * columns + left) * itemsize, tile[row - top].reshape(-1))
    return tile
