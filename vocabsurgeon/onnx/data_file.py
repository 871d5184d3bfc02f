"""Write graphs and their weights: one data file for all of them, in which every byte belongs to a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent

if TYPE_CHECKING:
    import onnx_ir as ir

DATA = "model.onnx_data"
PAGE = 4096


def write_models(models: Mapping[str, ir.Model], folder: Path, progress: Progress = silent) -> None:
    """Write each model as `folder/<its file name>`, every initializer in `folder/model.onnx_data`.

    A tensor object that several initializers hold is written once. Tensors lie one after the other, in the order of
    the power of two that divides their size, largest first: each then starts at a multiple of that power without a
    gap, pages at page borders. Tensors are made, written and dropped one by one; the initializers refer to the file
    afterwards.
    """
    import onnx_ir as ir

    values = [value for model in models.values() for value in model.graph.initializers.values()]
    holders: dict[int, list[ir.Value]] = {}
    for value in values:
        if value.const_value is not None:
            holders.setdefault(id(value.const_value), []).append(value)
    shared = sorted(holders.values(), key=lambda alike: -alignment(_tensor(alike[0]).nbytes))
    total = sum(_tensor(alike[0]).nbytes for alike in shared)
    offset = 0
    with open(folder / DATA, "wb") as file:
        for alike in shared:
            tensor = _tensor(alike[0])
            file.write(_bytes_of(tensor.numpy()))
            for value in alike:
                value.const_value = ir.ExternalTensor(
                    DATA,
                    offset,
                    tensor.nbytes,
                    tensor.dtype,
                    shape=tensor.shape,
                    name=value.name or "",
                    base_dir=folder,
                )
            offset += tensor.nbytes
            progress("write", offset, total)
    for name, model in models.items():
        ir.save(model, folder / name)


def _tensor(value: ir.Value) -> Any:
    return value.const_value


def alignment(nbytes: int) -> int:
    """The largest power of two, up to a page, that divides `nbytes`."""
    return min(PAGE, nbytes & -nbytes) if nbytes else PAGE


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
