"""ONNX files put together here with the `onnx` package: known tensors at known places, in six lines a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
DATA = "model.onnx_data"


def inline(name: str, array: Array) -> TensorProto:
    """A tensor whose bytes lie in the graph's own file."""
    return numpy_helper.from_array(array, name)


def external(
    name: str, kind: int, shape: Sequence[int], offset: int | None = 0, length: int | None = None, location: str = DATA
) -> TensorProto:
    """A tensor that refers to bytes of a data file; `offset` or `length` None leaves the key out."""
    tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
    return tensor


def save(path: Path, tensors: Sequence[TensorProto], nodes: Sequence[onnx.NodeProto] | None = None) -> Path:
    """An ONNX file that holds `tensors`, each read by an `Identity` unless `nodes` are given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [helper.make_node("Identity", [tensor.name], [f"{tensor.name}_out"]) for tensor in tensors]
    nodes = made if nodes is None else nodes
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)] if nodes else []
    graph = helper.make_graph(list(nodes), "handmade", [], outputs, list(tensors))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    path.write_bytes(model.SerializeToString())
    return path


def save_external(
    folder: Path,
    arrays: Mapping[str, Array],
    name: str = "model.onnx",
    data: str = DATA,
    tail: bytes = b"",
) -> Path:
    """`folder/name` whose `arrays` lie one after the other in `folder/data`, which ends with `tail`."""
    folder.mkdir(parents=True, exist_ok=True)
    content, tensors = b"", []
    for key, array in arrays.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensors.append(external(key, kind, array.shape, len(content), array.nbytes, data))
        content += array.tobytes()
    (folder / data).write_bytes(content + tail)
    return save(folder / name, tensors)


def table(rows: int = 24, width: int = 10, seed: int = 0) -> Array:
    """A random float32 table."""
    return np.random.default_rng(seed).standard_normal((rows, width), dtype=np.float32)
