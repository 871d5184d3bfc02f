"""One table of element types: safetensors name, numpy dtype, ONNX name, bits. No other module spells a dtype twice."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type. `numpy` is None where numpy (with ml_dtypes) has no whole-byte equivalent."""

    name: str
    """The name in safetensors headers, e.g. `BF16`."""
    bits: int
    numpy: np.dtype[Any] | None
    onnx: str | None
    """The name in `onnx.TensorProto.DataType`."""
    torch: str | None
    """The attribute of the torch module, which is also the spelling in config.json."""
    floating: bool = False

    @property
    def is_scale(self) -> bool:
        """Whether the type is an exponent alone, without sign and zero: the scale of other numbers, not a value."""
        return self.name == "F8_E8M0"

    def size_of(self, elements: int) -> int:
        """Bytes that `elements` elements take; sub-byte types are packed, the last byte padded."""
        return (elements * self.bits + 7) // 8


def _row(name: str, bits: int, numpy: Any, onnx: str | None, torch: str | None, floating: bool = False) -> DType:
    return DType(name, bits, None if numpy is None else np.dtype(numpy), onnx, torch, floating)


TABLE: tuple[DType, ...] = (
    _row("BOOL", 8, np.bool_, "BOOL", "bool"),
    _row("U8", 8, np.uint8, "UINT8", "uint8"),
    _row("I8", 8, np.int8, "INT8", "int8"),
    _row("U16", 16, np.uint16, "UINT16", "uint16"),
    _row("I16", 16, np.int16, "INT16", "int16"),
    _row("U32", 32, np.uint32, "UINT32", "uint32"),
    _row("I32", 32, np.int32, "INT32", "int32"),
    _row("U64", 64, np.uint64, "UINT64", "uint64"),
    _row("I64", 64, np.int64, "INT64", "int64"),
    _row("F16", 16, np.float16, "FLOAT16", "float16", True),
    _row("BF16", 16, ml_dtypes.bfloat16, "BFLOAT16", "bfloat16", True),
    _row("F32", 32, np.float32, "FLOAT", "float32", True),
    _row("F64", 64, np.float64, "DOUBLE", "float64", True),
    _row("C64", 64, np.complex64, "COMPLEX64", "complex64"),
    _row("F8_E4M3", 8, ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FN", "float8_e4m3fn", True),
    _row("F8_E5M2", 8, ml_dtypes.float8_e5m2, "FLOAT8E5M2", "float8_e5m2", True),
    _row("F8_E8M0", 8, ml_dtypes.float8_e8m0fnu, "FLOAT8E8M0", "float8_e8m0fnu", True),
    _row("F8_E4M3FNUZ", 8, ml_dtypes.float8_e4m3fnuz, "FLOAT8E4M3FNUZ", "float8_e4m3fnuz", True),
    _row("F8_E5M2FNUZ", 8, ml_dtypes.float8_e5m2fnuz, "FLOAT8E5M2FNUZ", "float8_e5m2fnuz", True),
    _row("F4", 4, None, "FLOAT4E2M1", "float4_e2m1fn_x2", True),
    _row("F6_E2M3", 6, None, None, None, True),
    _row("F6_E3M2", 6, None, None, None, True),
)


@functools.cache
def by_name() -> dict[str, DType]:
    """Safetensors name → DType."""
    return {dtype.name: dtype for dtype in TABLE}


@functools.cache
def by_torch_name() -> dict[str, DType]:
    """Torch and config.json spelling (`bfloat16`) → DType."""
    return {dtype.torch: dtype for dtype in TABLE if dtype.torch}


@functools.cache
def by_onnx_name() -> dict[str, DType]:
    """ONNX spelling (`FLOAT`) → DType."""
    return {dtype.onnx: dtype for dtype in TABLE if dtype.onnx}
