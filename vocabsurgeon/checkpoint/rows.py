"""Rows of one stored table, read by position into a bounded buffer: a 10 GB table costs no more memory than a small one.

Positional reads, not a memory map: mapped pages count as resident, and a file cut short under a map kills the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
        rows = self.info.shape[self.axis]
        return rows, prod(self.info.shape) // rows if rows else 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored dtype; raises `CheckpointError` for packed types that numpy cannot hold."""
        if self.info.dtype.numpy is None:
            raise CheckpointError(f"has the packed dtype {self.info.dtype.name}, whose rows cannot be read", where=self.info.key)
        return self.info.dtype.numpy

    def block(self, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Rows `start` to `stop` as `[stop - start, width]` in the stored dtype, a fresh array."""
        _, width = self.shape
        if self.axis:
            return self._moved()[start:stop]
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
        rows, width = self.shape
        taken = np.empty((len(ids), width), self.dtype)
        for position, row in enumerate(ids):
            taken[position] = self.block(row, row + 1)[0]
        return taken

    def _moved(self) -> np.ndarray[Any, Any]:
        whole = np.empty(self.info.shape, self.dtype)
        read_into(self.path, self.info.start, _bytes_of(whole))
        return np.moveaxis(whole, self.axis, 0).reshape(self.shape)


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """The array's memory as writable bytes (ml_dtypes types offer no buffer of their own)."""
    return memoryview(array.reshape(-1).view(np.uint8)) if array.size else memoryview(bytearray())


def read_into(path: Path, offset: int, buffer: memoryview) -> None:
    """Fill `buffer` from byte `offset` of the file; raises `CheckpointError` where the file ends first."""
    with open(path, "rb", buffering=0) as file:
        fill(file.fileno(), offset, buffer, path)


def fill(descriptor: int, offset: int, buffer: memoryview, path: Path) -> None:
    """Fill `buffer` from byte `offset` of an open file."""
    done = 0
    while done < len(buffer):
        count = os.preadv(descriptor, [buffer[done:]], offset + done)
        if count == 0:
            raise CheckpointError("ended while it was read: it was changed or cut short", where=path)
        done += count
