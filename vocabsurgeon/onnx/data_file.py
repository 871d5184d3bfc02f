"""Write a graph and its weights: `model.onnx`, and one data file in which every byte belongs to a tensor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent

if TYPE_CHECKING:
    import onnx_ir as ir

MODEL, DATA = "model.onnx", "model.onnx_data"
PAGE = 4096


def write_model(model: ir.Model, folder: Path, progress: Progress = silent) -> None:
    """Write `model` as `folder/model.onnx`, every initializer in `folder/model.onnx_data`, one after the other.

    Tensors lie in the order of the power of two that divides their size, largest first: each then starts at a multiple
    of that power without a gap, pages at page borders. Tensors are made, written and dropped one by one; the model's
    initializers refer to the file afterwards.
    """
    import onnx_ir as ir

    values = [value for value in model.graph.initializers.values() if value.const_value is not None]
    values.sort(key=lambda value: -_alignment(_tensor(value).nbytes))
    total = sum(_tensor(value).nbytes for value in values)
    offset = 0
    with open(folder / DATA, "wb") as file:
        for value in values:
            tensor = _tensor(value)
            file.write(_bytes_of(tensor.numpy()))
            value.const_value = ir.ExternalTensor(
                DATA, offset, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name or "", base_dir=folder
            )
            offset += tensor.nbytes
            progress("write", offset, total)
    ir.save(model, folder / MODEL)


def _tensor(value: ir.Value) -> Any:
    return value.const_value


def _alignment(nbytes: int) -> int:
    """The largest power of two, up to a page, that divides `nbytes`."""
    return min(PAGE, nbytes & -nbytes) if nbytes else PAGE


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
