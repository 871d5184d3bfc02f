"""Small exports as other tools write them, each with its known fault: what `audit` finds and `dedupe` repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.onnx.handmade import DATA, Array, external, inline, table

ROWS, WIDTH = 500, 16
KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}
Tensors = Mapping[str, Array]


def value(name: str, kind: int, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    """An input or output of a graph."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    tensors: Sequence[TensorProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int = 17,
    **more: Any,
) -> onnx.ModelProto:
    """A model of these parts; `more` goes to `make_model`."""
    graph = helper.make_graph(list(nodes), "made", list(inputs), list(outputs), list(tensors))
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    return helper.make_model(graph, opset_imports=opsets, **{"ir_version": 8, **more})


def decoder(
    tensors: Sequence[TensorProto], kind: int = TensorProto.FLOAT, opset: int = 17, **more: Any
) -> onnx.ModelProto:
    """`logits = tanh(Gather(table, input_ids)) · turned`: a language model of little but its vocabulary's two ends."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"], name="embed"),
        helper.make_node("Tanh", ["x"], ["h"], name="layers"),
        helper.make_node("MatMul", ["h", "turned"], ["logits"], name="head"),
    ]
    inputs = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    return model(nodes, tensors, inputs, [value("logits", kind, None)], opset, **more)


def weights(dtype: str = "float32", seed: int = 0) -> dict[str, Array]:
    """A table and its transpose."""
    made = table(ROWS, WIDTH, seed).astype(dtype)
    return {"table": made, "turned": np.ascontiguousarray(made.T)}


def placed(folder: Path, arrays: Tensors, data: str = DATA, tail: bytes = b"") -> list[TensorProto]:
    """Write `arrays` one after the other to `folder/data`, then `tail`; return the tensors that refer to them."""
    folder.mkdir(parents=True, exist_ok=True)
    content, tensors = b"", []
    for name, array in arrays.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensors.append(external(name, kind, array.shape, len(content), array.nbytes, data))
        content += array.tobytes()
    (folder / data).write_bytes(content + tail)
    return tensors


def write(made: onnx.ModelProto, path: Path) -> Path:
    """Save `made` at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


def optimum_like(folder: Path, dtype: str = "float32", opset: int = 17) -> Path:
    """A head folded to the transpose of the table under another name, as optimum-onnx leaves it."""
    return write(decoder(placed(folder, weights(dtype)), KINDS[dtype], opset), folder / "model.onnx")


def saved_twice(folder: Path) -> Path:
    """Saved again to the same place: the data file has doubled, and its first half is orphaned."""
    made = weights()
    made["turned"] = table(ROWS, WIDTH, 1).T.copy()
    (held,) = [b"".join(array.tobytes() for array in made.values())]
    tensors = placed(folder, made)
    for tensor in tensors:
        for entry in tensor.external_data:
            if entry.key == "offset":
                entry.value = str(int(entry.value) + len(held))
    (folder / DATA).write_bytes(held + held)
    return write(decoder(tensors), folder / "model.onnx")


def prefill_and_decode(folder: Path) -> Path:
    """Two graphs, each with all weights in a data file of its own."""
    for name in ("prefill", "decode"):
        made = weights() | {"turned": table(ROWS, WIDTH, 1).T.copy()}
        write(decoder(placed(folder, made, f"{name}.onnx_data")), folder / f"{name}.onnx")
    return folder


def inline_decoder(path: Path) -> Path:
    """The optimum-like decoder with its weights in the graph's file."""
    return write(decoder([inline(name, array) for name, array in weights().items()]), path)
