"""`write_models` leaves no byte between tensors, aligns them by their size, and writes what the tensors hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.onnx.handmade import table
from tests.onnx.passes.graphs import graph
from vocabsurgeon.onnx.data_file import write_models
from vocabsurgeon.onnx.files import read_onnx

TEXT = """g (float[b, 10] x, float[24, 10] u, float16[3] h, float[64, 64] big) => (float[24, 10] y) {
    a = Identity(h)  c = Identity(big)  y = Relu(u) }"""
WEIGHTS = {"u": table(), "h": np.ones(3, np.float16), "big": table(64, 64, 2)}


def test_every_byte_of_the_data_file_belongs_to_a_tensor(tmp_path: Path) -> None:
    write_models({"model.onnx": graph(TEXT, **WEIGHTS)}, tmp_path)
    tensors = sorted(read_onnx(tmp_path / "model.onnx").tensors, key=lambda tensor: tensor.offset)
    assert [tensor.name for tensor in tensors] == ["big", "u", "h"]
    ends = [tensor.offset + tensor.nbytes for tensor in tensors]
    assert [tensor.offset for tensor in tensors] == [0, *ends[:-1]]
    assert (tmp_path / "model.onnx_data").stat().st_size == ends[-1]
    assert [tensor.path.name for tensor in tensors] == ["model.onnx_data"] * 3


def test_the_file_loads_with_the_same_numbers(tmp_path: Path) -> None:
    write_models({"model.onnx": graph(TEXT, **WEIGHTS)}, tmp_path)
    loaded = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(str(tmp_path / "model.onnx"))
    for tensor in loaded.graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), WEIGHTS[tensor.name])


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_models({"model.onnx": graph(TEXT, **WEIGHTS)}, tmp_path / name)
    for file in ("model.onnx", "model.onnx_data"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
