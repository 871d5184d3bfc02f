"""The table of element types against the libraries whose names it spells."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from safetensors import deserialize

from tests.faults.checkpoints import random_tensor, weights_file
from vocabsurgeon.checkpoint.dtypes import TABLE, DType, by_name, by_onnx_name, by_torch_name


@pytest.mark.parametrize("dtype", TABLE, ids=lambda dtype: dtype.name)
def test_every_type_is_one_that_safetensors_reads_with_our_item_size(dtype: DType) -> None:
    tensor = random_tensor(dtype.name, (4, 6))
    [(_, entry)] = deserialize(weights_file({"a": tensor}))
    assert (entry["dtype"], bytes(entry["data"])) == (dtype.name, tensor.data)


@pytest.mark.parametrize("dtype", [d for d in TABLE if d.numpy is not None], ids=lambda dtype: dtype.name)
def test_numpy_type_has_the_stated_width(dtype: DType) -> None:
    assert dtype.numpy is not None and dtype.numpy.itemsize * 8 == dtype.bits
    assert dtype.numpy.isnative


def test_onnx_names_are_those_of_the_onnx_package() -> None:
    import onnx

    for name, dtype in by_onnx_name().items():
        number = onnx.TensorProto.DataType.Value(name)
        if dtype.numpy is not None:
            assert onnx.helper.tensor_dtype_to_np_dtype(number) == dtype.numpy


def test_torch_names_are_those_of_torch() -> None:
    import torch

    for name, dtype in by_torch_name().items():
        assert getattr(torch, name).itemsize * 8 >= dtype.bits
        assert getattr(torch, name).is_floating_point == dtype.floating


def test_floating_types_are_what_numpy_and_ml_dtypes_call_so() -> None:
    for dtype in TABLE:
        if dtype.numpy is not None and dtype.floating:
            assert ml_dtypes.finfo(dtype.numpy).bits == dtype.bits
        elif dtype.numpy is not None:
            assert np.dtype(dtype.numpy).kind in "biuc"


def test_names_are_unique_and_packed_sizes_round_up() -> None:
    assert len(by_name()) == len(TABLE)
    assert by_name()["F4"].size_of(3) == 2
    assert by_name()["F6_E2M3"].size_of(4) == 3
