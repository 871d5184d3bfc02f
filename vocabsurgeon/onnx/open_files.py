"""Files kept open while tensors in them are compared; closed together."""

from __future__ import annotations

import os
from pathlib import Path

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.tensors import StoredTensor


class OpenFiles:
    """Descriptors by tensor, opened on first use. Use as a context manager. Keeps at most `limit` open."""

    def __init__(self, limit: int = 128) -> None:
        self._limit = limit
        self._open: dict[Path, int] = {}

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def __getitem__(self, tensor: StoredTensor) -> int:
        """A descriptor of the tensor's file; raises `OnnxError` where it cannot be opened."""
        descriptor = self._open.pop(tensor.path, None)
        if descriptor is None:
            if len(self._open) >= self._limit:
                os.close(self._open.pop(next(iter(self._open))))
            try:
                descriptor = os.open(tensor.path, os.O_RDONLY)
            except OSError as error:
                raise OnnxError(f"cannot be read: {error.strerror}", where=tensor.path) from error
        self._open[tensor.path] = descriptor
        return descriptor
