"""ONNX element types by their number in the format: name, bits, numpy dtype. Extends the checkpoint's table."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.dtypes import by_onnx_name

_NUMBERED = """
    UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128
    BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ UINT4 INT4 FLOAT4E2M1 FLOAT8E8M0 UINT2 INT2
"""
"""`onnx.TensorProto.DataType`, in the order of its numbers."""
_ONLY_ONNX = {"COMPLEX128": 128, "UINT4": 4, "INT4": 4, "UINT2": 2, "INT2": 2}
"""Name → bits of what safetensors has no name for."""


@dataclass(frozen=True)
class ElementType:
    """An element type of an ONNX tensor. `numpy` is None where numpy has no whole-byte equivalent."""

    name: str
    bits: int
    numpy: np.dtype[Any] | None
    floating: bool = False

    def size_of(self, elements: int) -> int:
        """Bytes of `elements` elements; sub-byte types are packed, the last byte padded."""
        return (elements * self.bits + 7) // 8


@functools.cache
def by_number() -> dict[int, ElementType]:
    """Number in the file → type. Strings and undefined types, which have no fixed size, are absent."""
    known = {name: ElementType(name, row.bits, row.numpy, row.floating) for name, row in by_onnx_name().items()}
    for name, bits in _ONLY_ONNX.items():
        known[name] = ElementType(name, bits, None)
    return {number: known[name] for number, name in enumerate(_NUMBERED.split()) if name in known}
