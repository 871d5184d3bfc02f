"""Tolerances are the measured rounding times the margin; what is given replaces them. Measuring is a benchmark."""

from __future__ import annotations

import pytest

from vocabsurgeon.onnx.parity.tolerances import MARGIN, ROUNDING, TOLERANCES, Tolerance, tolerance_for
from vocabsurgeon.onnx.runtime_types import TYPES


def test_each_dtype_has_the_measured_rounding_times_the_margin() -> None:
    assert set(TOLERANCES) == set(ROUNDING) == set(TYPES)
    for dtype, rounding in ROUNDING.items():
        assert TOLERANCES[dtype] == Tolerance(MARGIN * rounding, MARGIN * rounding)


def test_a_coarser_dtype_is_allowed_more() -> None:
    assert TOLERANCES["float32"].allowed(10) < TOLERANCES["float16"].allowed(10) < TOLERANCES["bfloat16"].allowed(10)
    assert TOLERANCES["float32"].allowed(100) == pytest.approx(2e-5 + 2e-3)


@pytest.mark.parametrize(
    ("atol", "rtol", "expected"),
    [
        (None, None, TOLERANCES["float16"]),
        (0.5, None, Tolerance(0.5, 0.0)),
        (None, 0.5, Tolerance(TOLERANCES["float16"].atol, 0.5)),
        (0.25, 0.5, Tolerance(0.25, 0.5)),
    ],
)
def test_what_is_given_replaces_the_table(atol: float | None, rtol: float | None, expected: Tolerance) -> None:
    assert tolerance_for("float16", atol, rtol) == expected


def test_an_unknown_dtype_is_judged_as_float32() -> None:
    assert tolerance_for("float8_e4m3fn") == TOLERANCES["float32"]
