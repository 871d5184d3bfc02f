"""Stored weights as matrices of numbers: floating ones as they are, quantized ones by their scales and zero points.

Reads blocks of rows; of a quantized matrix the scales are held in memory, a small part of it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from vocabsurgeon.onnx.duplicates import read_tile
from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.samples import matrix_shape
from vocabsurgeon.onnx.tensors import StoredTensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FloatMatrix:
    """A floating tensor as `[rows, columns]`. `is_matrix`: it has two real dimensions, so a transpose means something;
    any other tensor is taken by its last dimension."""

    tensor: StoredTensor
    rows: int
    columns: int
    is_matrix: bool

    @property
    def slack(self) -> float:
        """Relative error of the stored numbers: they may have been rounded after others were quantized from them."""
        return {"FLOAT16": 2.0**-10, "BFLOAT16": 2.0**-7}.get(self.tensor.element.name, 2.0**-20)

    def stored(self, start: int, stop: int, files: OpenFiles, turned: bool = False) -> Array:
        """Rows `start` to `stop` of the matrix, or of its transpose, in the stored dtype."""
        box = (0, self.rows, start, stop) if turned else (start, stop, 0, self.columns)
        tile = read_tile(self.tensor, files[self.tensor], self.columns, box)
        numbers = _view(np.ascontiguousarray(tile), self.tensor)[..., 0]
        return numbers.T if turned else numbers

    def numbers(self, start: int, stop: int, files: OpenFiles, turned: bool = False) -> tuple[Array, Array]:
        """Rows of the matrix or its transpose as float32, and how far each may be off: not at all."""
        values = self.stored(start, stop, files, turned).astype(np.float32)
        return values, np.zeros((1, 1), np.float32)


@dataclass(frozen=True)
class Grid:
    """Scales or zero points `[rows, columns]` of a quantized matrix, one for each `height` × `width` numbers."""

    height: int
    width: int
    rows: int
    columns: int

    def spread(self, values: Array, start: int, stop: int, columns: int) -> Array:
        """`values [rows, columns]` of the grid, repeated for rows `start` to `stop` and `columns` numbers each."""
        rows = values[np.arange(start, stop) // self.height]
        return rows if self.columns == 1 else rows[:, np.arange(columns) // self.width]


@dataclass(frozen=True)
class QuantizedMatrix:
    """Small integers `[rows, columns]`, packed `8 // bits` to a byte, lowest bits first, `row_bytes` a row.

    Number = (integer − zero point) × scale. `zeros` None: the zero point is `zero` everywhere; else packed like the
    integers where `zero_bits` is under 8, each of the grid's rows by itself where `zeros_by_row`.
    """

    tensor: StoredTensor
    rows: int
    columns: int
    bits: int
    signed: bool
    row_bytes: int
    grid: Grid
    scales: StoredTensor
    zeros: StoredTensor | None
    zero: int = 0
    zeros_by_row: bool = False
    is_matrix: bool = True
    slack: float = 2.0**-10

    def numbers(self, start: int, stop: int, files: OpenFiles, turned: bool = False) -> tuple[Array, Array]:
        """Rows `start` to `stop` as float32, and the step of the quantizer for each. Never transposed (`turned`)."""
        assert not turned
        raw = self.tensor.read(files[self.tensor], start * self.row_bytes, (stop - start) * self.row_bytes)
        integers = _unpack(raw.reshape(stop - start, self.row_bytes), self.bits, self.signed)[:, : self.columns]
        scales, zeros = _grids(self, files)
        steps = self.grid.spread(scales, start, stop, self.columns).astype(np.float32)
        offsets = self.grid.spread(zeros, start, stop, self.columns).astype(np.float32)
        return (integers.astype(np.float32) - offsets) * steps, np.abs(steps)


Matrix = FloatMatrix | QuantizedMatrix


def float_matrix(tensor: StoredTensor) -> FloatMatrix | None:
    """`tensor` as a matrix; None where it holds no floating numbers that numpy reads."""
    if not tensor.element.floating or tensor.element.numpy is None or tensor.element.bits < 16 or not tensor.nbytes:
        return None
    shape = matrix_shape(tensor)
    columns = tensor.shape[-1] if tensor.shape else 1
    rows, columns = shape or (prod(tensor.shape) // columns, columns)
    return FloatMatrix(tensor, rows, columns, shape is not None)


@functools.lru_cache(maxsize=2)
def _grids(matrix: QuantizedMatrix, files: OpenFiles) -> tuple[Array, Array]:
    """Scales and zero points as `[grid rows, grid columns]`; kept for the two matrices that are compared."""
    grid = matrix.grid
    shape = grid.rows, grid.columns
    raw = matrix.scales.read(files[matrix.scales], 0, matrix.scales.nbytes)
    scales = _view(raw, matrix.scales).reshape(shape)
    if matrix.zeros is None:
        return scales, np.full((grid.rows, 1), matrix.zero, np.int16).repeat(grid.columns, axis=1)
    return scales, _zeros(matrix, matrix.zeros, files).reshape(shape)


def _zeros(matrix: QuantizedMatrix, zeros: StoredTensor, files: OpenFiles) -> Array:
    raw = zeros.read(files[zeros], 0, zeros.nbytes)
    if zeros.element.floating:
        return _view(raw, zeros)
    grid = matrix.grid
    if matrix.zeros_by_row:
        return _unpack(raw.reshape(grid.rows, -1), matrix.bits, matrix.signed)[:, : grid.columns]
    return _unpack(raw.reshape(1, -1), zeros.element.bits, matrix.signed)[0, : grid.rows * grid.columns]


def _view(raw: Array, tensor: StoredTensor) -> Array:
    """Bytes of `tensor` as its numbers."""
    assert tensor.element.numpy is not None
    return raw.view(tensor.element.numpy)


def _unpack(raw: Array, bits: int, signed: bool) -> Array:
    """Bytes `[n, m]` as integers `[n, m · 8 / bits]`."""
    if bits == 8:
        return raw.view(np.int8) if signed else raw
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = (raw[:, :, None] >> shifts & (2**bits - 1)).reshape(len(raw), -1)
    half = 2 ** (bits - 1)
    numbers: Array = (fields ^ half).astype(np.int8) - np.int8(half) if signed else fields
    return numbers
