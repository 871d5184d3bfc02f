"""A few elements of a tensor, chosen alike for equal content: what cannot be equal is told apart without reading it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.tensors import StoredTensor

POINTS = 64
"""Elements looked at."""
_SIDE = 8


def flat_key(tensor: StoredTensor, files: OpenFiles) -> tuple[Any, ...]:
    """Equal for tensors of one element type and equal bytes, whatever their shape."""
    width = max(1, tensor.element.bits // 8)
    places = np.unique(np.linspace(0, max(0, tensor.nbytes // width - 1), POINTS).astype(np.int64))
    taken = b"".join(tensor.read(files[tensor], int(i) * width, width).tobytes() for i in places if tensor.nbytes)
    return tensor.element.name, tensor.nbytes, taken


def matrix_key(tensor: StoredTensor, files: OpenFiles) -> tuple[Any, ...] | None:
    """Equal for a matrix and its transpose: a grid of elements, or its transpose, whichever sorts first.

    None where the tensor is no matrix with whole-byte elements (dimensions of 1 aside).
    """
    matrix = matrix_shape(tensor)
    if matrix is None:
        return None
    rows, columns = matrix
    width = tensor.element.bits // 8
    at_rows = np.linspace(0, rows - 1, _SIDE).astype(np.int64)
    at_columns = np.linspace(0, columns - 1, _SIDE).astype(np.int64)
    grid = [
        [tensor.read(files[tensor], int(i * columns + j) * width, width).tobytes() for j in at_columns] for i in at_rows
    ]
    flat = tuple(cell for row in grid for cell in row)
    turned = tuple(cell for row in zip(*grid, strict=True) for cell in row)
    return tensor.element.name, *sorted(matrix), min(flat, turned)


def matrix_shape(tensor: StoredTensor) -> tuple[int, int] | None:
    """The two dimensions above 1, None where there are not just two or the elements are no whole bytes."""
    sizes = [size for size in tensor.shape if size != 1]
    if len(sizes) != 2 or prod(sizes) == 0 or tensor.element.bits % 8:
        return None
    return sizes[0], sizes[1]
