"""`StoredTensor`: one tensor of any export or checkpoint as a stretch of bytes on disk. Reads pieces of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.rows import fill
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.element_types import ElementType


@dataclass(frozen=True)
class StoredTensor:
    """A tensor whose `nbytes` bytes lie at `offset` of `path`, row-major and little-endian.

    `content` holds the bytes instead where the file codes them number by number. `uses` names the operators that read
    the tensor (empty for a checkpoint), `external` says that it lies in a data file and not in the graph's own.
    """

    name: str
    element: ElementType
    shape: tuple[int, ...]
    path: Path
    offset: int
    nbytes: int
    uses: tuple[str, ...] = ()
    external: bool = True
    content: bytes | None = None
    whole: tuple[int, int] | None = None
    """Where the TensorProto lies in the graph's file; None for a checkpoint."""

    @property
    def place(self) -> tuple[str, int, int]:
        """File, first byte, length: two tensors with one place are one tensor on disk."""
        return str(self.path), self.offset, self.nbytes

    @property
    def elements(self) -> int:
        """How many numbers the shape has room for."""
        return prod(self.shape)

    def named(self, name: str) -> StoredTensor:
        """The same tensor under another name."""
        return replace(self, name=name)

    def read(self, descriptor: int, start: int, count: int) -> np.ndarray[Any, Any]:
        """`count` bytes from byte `start` of the tensor, as uint8. `descriptor`: `path`, open for reading."""
        if self.content is not None:
            return np.frombuffer(self.content, np.uint8, count, start)
        buffer = np.empty(count, np.uint8)
        fill(descriptor, self.offset + start, buffer.data, self.path)
        return buffer

    def read_into(self, descriptor: int, start: int, buffer: np.ndarray[Any, Any]) -> None:
        """Fill `buffer`, contiguous uint8, from byte `start` of the tensor on."""
        if self.content is None:
            fill(descriptor, self.offset + start, buffer.data, self.path)
        else:
            buffer[:] = np.frombuffer(self.content, np.uint8, len(buffer), start)


def checkpoint_tensors(checkpoint: Checkpoint) -> list[StoredTensor]:
    """Every tensor of the checkpoint, in index order; one that lies transposed in the file, in the shape it lies in."""
    found = []
    for key, info in checkpoint.tensors.items():
        dtype = info.dtype
        element = ElementType(dtype.onnx or dtype.name, dtype.bits, dtype.numpy, dtype.floating)
        shape = tuple(info.shape[axis] for axis in info.order) if info.order else info.shape
        found.append(StoredTensor(key, element, shape, checkpoint.path(info.file), info.start, info.nbytes))
    return found
