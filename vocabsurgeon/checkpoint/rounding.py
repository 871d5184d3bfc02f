"""Whether two tables differ by rounding to an element type and no more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from vocabsurgeon.checkpoint.dtypes import DType, by_name

Array = np.ndarray[Any, Any]

_POWER = {4: (np.uint32, 0x7F800000), 8: (np.uint64, 0x7FF0000000000000)}
"""Bytes of a float → its bits as a number, and those that leave the largest power of two below the value."""
_COMMON = ("F16", "BF16")
"""Types that models are rounded to on their way, whatever they are stored in afterwards."""


@dataclass(frozen=True)
class Rounding:
    """Rounding to one element type, by as many of its steps as one rounding can make.

    A step is the gap between neighbors of the type at the larger of the two values. Two tables that are both stored in
    the type may differ by a whole step (each was rounded by itself), others by half a step (one is the other, rounded).
    """

    name: str
    """As torch spells it."""
    relative: float
    """What may lie between two values, beside the largest power of two that is not above them."""
    absolute: float
    """The same near zero, where the type's steps grow no smaller."""

    cast: Any = None
    """The numpy type, where one table must be the other rounded to it; None where both are stored in it."""

    def explains(self, power: Array, gap: Array) -> bool:
        """Whether every `gap` is within this rounding; `power`: the power of two below the larger of the values."""
        limit = power * power.dtype.type(self.relative)
        return bool((gap <= np.maximum(limit, power.dtype.type(self.absolute), out=limit)).all())


def power_below(a: Array, b: Array) -> Array:
    """The largest power of two that is not above |a| or |b|, whichever is larger; both arrays are spent.

    float32 or float64; 0 stands for what is smaller than the smallest normal number.
    """
    number: Any
    number, mask = _POWER[a.dtype.itemsize]
    np.maximum(np.abs(a, out=a), np.abs(b, out=b), out=a)
    bits = a.view(number)
    np.bitwise_and(bits, number(mask), out=bits)
    return a


def rounding_steps(first: DType, second: DType) -> tuple[Rounding, ...]:
    """The roundings that could explain a difference between tables of these types, the finest first."""
    if not (first.floating and second.floating and first.numpy and second.numpy):
        return ()
    stored = min(first, second, key=_digits)
    coarser = [by_name()[name] for name in _COMMON if _digits(by_name()[name]) < _digits(stored)]
    own = _rounding(stored, 1.0) if first == second else replace(_rounding(stored, 0.5), cast=stored.numpy)
    return (own, *(replace(_rounding(dtype, 0.5), cast=dtype.numpy) for dtype in coarser))


def _digits(dtype: DType) -> int:
    return int(_info(dtype).nmant)


def _rounding(dtype: DType, steps: float) -> Rounding:
    info = _info(dtype)
    return Rounding(dtype.torch or dtype.name, steps * 2.0**-info.nmant, steps * float(info.smallest_subnormal))


def _info(dtype: DType) -> Any:
    find: Any = ml_dtypes.finfo
    return find(dtype.numpy)
