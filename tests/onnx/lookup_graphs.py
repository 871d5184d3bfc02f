"""Graphs of one tied table of 8 MB, as exporters write them: token lookup, then a product with the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tests.onnx.handmade import DATA, external, table

ROWS, WIDTH = 8192, 256
TABLE_BYTES = ROWS * WIDTH * 4
_LOOKUP = helper.make_node("Gather", ["table", "input_ids"], ["x"])
_FLAT = helper.make_node("Reshape", ["x", "flat_shape"], ["flat"])
FORMS: dict[str, list[NodeProto]] = {
    "transposed": [
        _LOOKUP,
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["logits"]),
    ],
    "gemm": [_LOOKUP, _FLAT, helper.make_node("Gemm", ["flat", "table"], ["logits"], transB=1)],
    "view": [
        _LOOKUP,
        _FLAT,
        helper.make_node("Reshape", ["table", "table_shape"], ["view"]),
        helper.make_node("Gemm", ["flat", "view"], ["logits"], transB=1),
    ],
}
"""How the head reads the table: as plain exporters do, directly, and as `passes.weight_layout` does."""


def write(folder: Path, form: str, name: str = "model.onnx") -> Path:
    """`folder/name` in one of the `FORMS`, over one data file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).write_bytes(table(ROWS, WIDTH).tobytes())
    shapes = {"flat_shape": [-1, WIDTH], "table_shape": [ROWS, WIDTH]}
    graph = helper.make_graph(
        FORMS[form],
        "lookup",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)],
        [external("table", TensorProto.FLOAT, (ROWS, WIDTH), 0, TABLE_BYTES)]
        + [numpy_helper.from_array(np.array(shape), key) for key, shape in shapes.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / name)
    return folder / name
