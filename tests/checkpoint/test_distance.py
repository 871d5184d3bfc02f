"""The distance of two tables: the numbers of whole arrays in float64, in any blocks, and finite whatever is stored."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.faults.checkpoints import Stored, checkpoint, random_tensor, tensor_of
from vocabsurgeon.checkpoint import distance as module
from vocabsurgeon.checkpoint.distance import Distance, distance
from vocabsurgeon.checkpoint.dtypes import by_name
from vocabsurgeon.checkpoint.source import Checkpoint

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


def _told(folder: Path, first: Stored, second: Stored) -> Distance:
    source = Checkpoint.open(checkpoint(folder, {"a": first, "pad": random_tensor("U8", (3,)), "b": second}))
    return distance(source.rows("a"), source.rows("b"))


def _distance(folder: Path, first: Any, second: Any, dtype: str = "F32", other: str | None = None) -> Distance:
    return _told(folder, tensor_of(first, dtype), tensor_of(second, other or dtype))


def _in_float64(first: Array, second: Array) -> dict[str, Any]:
    """The same numbers from whole arrays, straight from their definitions."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    scale = (a * b).sum() / (a * a).sum()
    return {
        "max_abs_diff": np.abs(a - b).max(),
        "mean_abs_diff": np.abs(a - b).mean(),
        "mean_cosine": cosines.mean(),
        "low_cosine": np.percentile(cosines, 1),
        "relative": np.linalg.norm(a - b) / np.linalg.norm(a),
        "scale": scale,
        "residual": np.linalg.norm(a * scale - b) / np.linalg.norm(b),
        "worst": np.sort(cosines)[: module.WORST],
    }


def _assert_as_defined(told: Distance, first: Array, second: Array, relative: float = 1e-5) -> None:
    for name, value in _in_float64(first, second).items():
        found = [cosine for _, cosine in told.worst] if name == "worst" else getattr(told, name)
        assert found == pytest.approx(value, rel=relative, abs=5e-4 if name == "residual" else 1e-6), name


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
@pytest.mark.parametrize("noise", [0.0003, 0.3, 30.0])
def test_distance_is_that_of_whole_arrays_in_float64(tmp_path: Path, dtype: str, noise: float) -> None:
    random = np.random.default_rng(2)
    first = random.standard_normal((300, 96)).astype(by_name()[dtype].numpy)
    second = (first.astype(np.float64) * 1.5 + noise * random.standard_normal(first.shape)).astype(first.dtype)
    told = _distance(tmp_path, first, second, dtype)
    _assert_as_defined(told, first, second)
    assert (told.rows, told.equal_rows, told.zero_rows, told.nonfinite_rows) == (300, 0, 0, 0)


@pytest.mark.parametrize("elements", [1, 7, 1000])
@pytest.mark.parametrize("spans", [1, 3, 64])
def test_distance_does_not_depend_on_blocks(
    tmp_path: Path, elements: int, spans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = np.random.default_rng(2).standard_normal((2, 9, 3)).astype(np.float32)
    monkeypatch.setattr(module, "_ELEMENTS", elements)
    monkeypatch.setattr(module, "_SPANS", spans)
    _assert_as_defined(_distance(tmp_path, first, second), first, second)


def test_cosine_of_near_copies_keeps_its_digits(tmp_path: Path) -> None:
    """In float32, 1 - cosine of 1e-10 would drown; taken from the difference it does not."""
    random = np.random.default_rng(3)
    first = random.standard_normal((50, 1024)).astype(np.float32)
    second = (first + 1e-5 * random.standard_normal(first.shape)).astype(np.float32)
    a, b = first.astype(np.float64), second.astype(np.float64)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    mean = _distance(tmp_path, first, second).mean_cosine
    assert mean is not None and 1 - mean == pytest.approx(1 - cosines.mean(), rel=1e-3)


def test_worst_rows_are_named_by_number_the_least_cosine_first_and_equal_rows_never(tmp_path: Path) -> None:
    first = np.eye(20, dtype=np.float32)
    second = first.copy()
    second[[3, 17]] = first[[3, 17]] * 0.1 + [[0.01], [0.02]]
    second[5] *= -1
    told = _distance(tmp_path, first, second)
    assert [row for row, _ in told.worst] == [5, 17, 3]
    assert told.worst[0][1] == -1 and told.equal_rows == 17


def test_zero_rows_have_no_angle_and_are_counted_apart(tmp_path: Path) -> None:
    told = _distance(tmp_path, [[1, 0], [1, 1], [0, 0], [0, 0]], [[0, 2], [1, 1], [0, 0], [3, 0]])
    assert (told.zero_rows, told.equal_rows, told.max_abs_diff) == (2, 2, 3.0)
    assert told.mean_cosine == 0.5 and [row for row, _ in told.worst] == [0]
    assert told.relative == pytest.approx(math.sqrt(5 + 9) / math.sqrt(3))


def test_a_row_that_is_not_finite_counts_in_no_ratio(tmp_path: Path) -> None:
    first = [[NAN, 1], [INF, 1], [INF, 2], [NAN, NAN], [3, 4]]
    told = _distance(tmp_path, first, [[1, 2], [-INF, 1], [INF, 2], [NAN, NAN], [3, 8]])
    assert (told.nonfinite_rows, told.equal_rows, told.max_abs_diff) == (4, 2, 4.0)
    assert told.mean_abs_diff == pytest.approx((1 + 0 + 0 + 0 + 4) / 5)
    assert told.relative == pytest.approx(4 / 5)
    assert told.mean_cosine == pytest.approx(41 / 5 / math.sqrt(73))


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2", "I8", "U16", "I64"])
def test_every_number_is_finite_or_none_whatever_is_stored(tmp_path: Path, dtype: str) -> None:
    for seed in range(4):
        told = _told(
            tmp_path / str(seed), random_tensor(dtype, (499, 8), seed), random_tensor(dtype, (499, 8), seed + 9)
        )
        for name, value in dataclasses.asdict(told).items():
            if isinstance(value, float):
                assert math.isfinite(value), name
        assert all(-1 <= cosine <= 1 for _, cosine in told.worst)


@pytest.mark.parametrize("size", [1e-37, 1e-20, 1e18, 3e38])
def test_rows_whose_squares_leave_float32_are_taken_in_float64(tmp_path: Path, size: float) -> None:
    random = np.random.default_rng(5).uniform(-1, 1, (2, 12, 16))
    first, second = (random * size).astype(np.float32)
    told = _distance(tmp_path, first, second)
    for name in ("max_abs_diff", "mean_abs_diff", "mean_cosine", "relative", "scale", "residual"):
        assert getattr(told, name) == pytest.approx(_in_float64(first, second)[name], rel=1e-5), name
    assert (told.zero_rows, told.nonfinite_rows) == (0, 0)


def test_distance_between_two_dtypes_compares_values(tmp_path: Path) -> None:
    told = _distance(tmp_path, [[1, 2], [3, 4]], [[1, 2], [3, 4.5]], "BF16", "F32")
    assert (told.max_abs_diff, told.equal_rows) == (0.5, 0)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_distance_of_empty_tables_is_none(tmp_path: Path, shape: tuple[int, int]) -> None:
    empty = random_tensor("F32", shape)
    told = _told(tmp_path, empty, empty)
    assert (told.rows, told.equal_rows, told.max_abs_diff) == (shape[0], shape[0], 0.0)
    assert told.mean_cosine is told.relative is None


def test_distance_of_two_shapes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        _distance(tmp_path, [[1, 2]], [[1], [2]])


def _rounded(values: Array, dtype: str) -> Array:
    """`values` rounded to `dtype`, in their own type again."""
    rounded: Array = values.astype(by_name()[dtype].numpy).astype(values.dtype)
    return rounded


@pytest.mark.parametrize(("dtype", "name"), [("BF16", "bfloat16"), ("F16", "float16")])
@pytest.mark.parametrize("stored", ["as float32", "as itself"])
def test_a_rounded_copy_is_told_from_noise(tmp_path: Path, dtype: str, name: str, stored: str) -> None:
    random = np.random.default_rng(4)
    first = (random.standard_normal((40, 30)) * 10.0 ** random.integers(-6, 3, (40, 1))).astype(np.float32)
    first[3] = 0
    other = "F32" if stored == "as float32" else dtype
    assert _distance(tmp_path / "1", first, _rounded(first, dtype), "F32", other).rounding == name
    noisy = first * (1 + 0.02 * random.standard_normal(first.shape).astype(np.float32))
    assert _distance(tmp_path / "2", first, _rounded(noisy, dtype), "F32", other).rounding is None


def test_one_element_beyond_a_step_is_no_rounding(tmp_path: Path) -> None:
    first = np.ones((30, 30), ml_dtypes.bfloat16)
    second = first.copy()
    second[7, 7] = 1 + 2**-7
    assert _distance(tmp_path / "1", first, second, "BF16").rounding == "bfloat16"
    second[7, 7] = 1 + 2**-6
    assert _distance(tmp_path / "2", first, second, "BF16").rounding is None


def test_a_coarser_type_explains_half_a_step_and_no_more(tmp_path: Path) -> None:
    first = np.ones((30, 30), np.float32)
    assert _distance(tmp_path / "1", first, first + 0.5 * 2**-7).rounding == "bfloat16"
    assert _distance(tmp_path / "2", first, first + 0.75 * 2**-7).rounding is None


def test_rows_that_are_not_finite_are_no_rounding_unless_their_bits_are_equal(tmp_path: Path) -> None:
    first = [[1.0, NAN], [1.0, 2.0]]
    near = 1 + 2**-23
    assert _distance(tmp_path / "1", first, [[1.0, NAN], [near, 2.0]]).rounding == "float32"
    assert _distance(tmp_path / "2", first, [[1.0, INF], [near, 2.0]]).rounding is None
