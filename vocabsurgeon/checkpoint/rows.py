"""Rows of one stored table, read by position into a bounded buffer: a 10 GB table costs no more memory than a tiny one.

Positional reads, not a memory map: mapped pages count as resident, and a file cut short under a map kills the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.errors import CheckpointError

BLOCK_BYTES = 8 << 20
"""How much is in memory at a time: large enough for disk speed, small beside the interpreter."""


@dataclass(frozen=True)
class TableReader:
    """A stored tensor seen as `[rows, width]` along `axis`: every other dimension is flattened into the width.

    Axis 0 is read by rows; any other axis is read whole (such tensors are vectors like `final_logits_bias [1, V]`).
    """

    path: Path
    info: TensorInfo
    axis: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """`(rows, width)`."""
        shape = self.info.shape
        return shape[self.axis], prod((*shape[: self.axis], *shape[self.axis + 1 :]))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored dtype; raises `CheckpointError` for packed types that numpy cannot hold."""
        if self.info.dtype.numpy is None:
            raise CheckpointError(
                f"has the packed dtype {self.info.dtype.name}, whose rows cannot be read", where=self.info.key
            )
        return self.info.dtype.numpy

    def block(self, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Rows `start` to `stop` as `[stop - start, width]` in the stored dtype, a fresh array.

        Raises `IndexError` for rows that the table does not have: what lies behind it is another tensor's.
        """
        self._require(start, stop)
        if self.axis:
            return self._moved()[start:stop]
        if self.info.order:
            return self._gathered(start, stop)
        _, width = self.shape
        rows = np.empty((stop - start, width), self.dtype)
        offset = self.info.start + start * width * self.dtype.itemsize
        read_into(self.path, offset, _bytes_of(rows))
        return rows

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
        """`(first row, rows)` over the whole table, at most about `block_bytes` at a time."""
        rows, width = self.shape
        step = max(1, block_bytes // max(1, width * self.dtype.itemsize))
        for start in range(0, rows, step):
            yield start, self.block(start, min(start + step, rows))

    def take(self, ids: Sequence[int]) -> np.ndarray[Any, Any]:
        """The rows `ids` as `[len(ids), width]`, in that order."""
        _, width = self.shape
        for row in ids:
            self._require(row, row + 1)
        if self.axis:
            return self._moved()[list(ids)]
        if self.info.order:
            return np.concatenate([np.empty((0, width), self.dtype), *(self._gathered(row, row + 1) for row in ids)])
        taken, row_bytes = np.empty((len(ids), width), self.dtype), width * self.dtype.itemsize
        with open_source(self.path) as file:
            for position, row in enumerate(ids):
                fill(file.fileno(), self.info.start + row * row_bytes, _bytes_of(taken[position]), self.path)
        return taken

    def _gathered(self, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Rows of a tensor whose dimensions lie in another order: one read for each index of what is outside axis 0."""
        shape, order = self.info.shape, self.info.order or ()
        place, lengths = order.index(0), [shape[axis] for axis in order]
        outer, inner = prod(lengths[:place]), prod(lengths[place + 1 :]) * self.dtype.itemsize
        pieces = np.empty((outer, (stop - start) * inner), np.uint8)
        with open_source(self.path) as file:
            for number, piece in enumerate(pieces):
                offset = self.info.start + (number * shape[0] + start) * inner
                fill(file.fileno(), offset, piece.data, self.path)
        stored = pieces.view(self.dtype).reshape(*lengths[:place], stop - start, *lengths[place + 1 :])
        rows = stored.transpose([order.index(axis) for axis in range(len(order))])
        return np.ascontiguousarray(rows).reshape(stop - start, -1)

    def _require(self, start: int, stop: int) -> None:
        count = self.shape[0]
        if start < stop and not 0 <= start < stop <= count:
            raise IndexError(f"{self.info.key} has no rows {start} to {stop - 1}, only {count}")

    def _moved(self) -> np.ndarray[Any, Any]:
        whole = TableReader(self.path, self.info).block(0, self.info.shape[0]).reshape(self.info.shape)
        return np.ascontiguousarray(np.moveaxis(whole, self.axis, 0).reshape(self.shape))


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """The array's memory as writable bytes (ml_dtypes types offer no buffer of their own)."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(bytearray())


def read_into(path: Path, offset: int, buffer: memoryview) -> None:
    """Fill `buffer` from byte `offset` of the file; raises `CheckpointError` where the file ends first."""
    with open_source(path) as file:
        fill(file.fileno(), offset, buffer, path)


def open_source(path: Path) -> FileIO:
    """Open a file of a checkpoint for unbuffered reading; raises `CheckpointError` where the system says no."""
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise _unreadable(error, path) from error


def fill(descriptor: int, offset: int, buffer: memoryview, path: Path) -> None:
    """Fill `buffer` from byte `offset` of an open file; raises `CheckpointError` where it ends or fails first."""
    done = 0
    while done < len(buffer):
        try:
            count = os.preadv(descriptor, [buffer[done:]], offset + done)
        except OSError as error:
            raise _unreadable(error, path) from error
        if count == 0:
            raise CheckpointError("ended while it was read: it was changed or cut short", where=path)
        done += count


def _unreadable(error: OSError, path: Path) -> CheckpointError:
    return CheckpointError(f"cannot be read: {error.strerror}", where=path)
