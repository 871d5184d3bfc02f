"""Row expressions against exact arithmetic: what is rounded is rounded once, no more is dropped than told."""

from __future__ import annotations

import math
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.checkpoints import checkpoint, random_tensor, tensor_of
from vocabsurgeon.checkpoint import rows
from vocabsurgeon.checkpoint.dtypes import by_name
from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, Normal, Zeros
from vocabsurgeon.checkpoint.evaluate import RowEvaluator, mean_blocks, round_once
from vocabsurgeon.checkpoint.source import Checkpoint

FLOATS = ["BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2"]
NARROW = ["BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"]


def nearest(value: float, dtype: np.dtype[Any]) -> Any:
    """The reference: `value` rounded to nearest even by whole-number arithmetic."""
    info = ml_dtypes.finfo(dtype)
    if not math.isfinite(value) or value == 0:
        return np.asarray(value).astype(dtype)
    exact = Fraction(value)
    exponent = max(math.frexp(value)[1] - 1, int(info.minexp))
    quantum = Fraction(2) ** (exponent - int(info.nmant))
    rounded = round(exact / quantum) * quantum
    if abs(rounded) > Fraction(float(info.max)):
        overflow = math.nan if dtype == by_name()["F8_E4M3"].numpy else math.inf
        return np.asarray(math.copysign(overflow, value)).astype(dtype)
    return np.asarray(math.copysign(float(rounded), value)).astype(dtype)


def same(a: Any, b: Any) -> bool:
    """Equal bits, or NaN in both."""
    return bool(a.tobytes() == b.tobytes() or (np.isnan(a.astype(np.float64)) and np.isnan(b.astype(np.float64))))


def _numpy(name: str) -> np.dtype[Any]:
    dtype = by_name()[name].numpy
    assert dtype is not None
    return dtype


@pytest.mark.parametrize("name", NARROW)
def test_ties_and_their_neighbors_round_to_nearest_even(name: str) -> None:
    dtype = _numpy(name)
    bits = np.random.default_rng(0).integers(0, 256, (2000, dtype.itemsize), np.uint8)
    following = (bits.view(f"u{dtype.itemsize}") + 1).astype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        low, high = (array.view(dtype)[:, 0].astype(np.float64) for array in (bits, following))
        middle = low / 2 + high / 2
    middle = middle[np.isfinite(middle)]
    values = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
    rounded = round_once(values, dtype)
    assert len(values) > 3000
    assert [v for v, r in zip(values, rounded, strict=True) if not same(r, nearest(float(v), dtype))] == []


@pytest.mark.parametrize("name", NARROW)
def test_hard_values_round_to_nearest_even(name: str) -> None:
    dtype = _numpy(name)
    info = ml_dtypes.finfo(dtype)
    largest, smallest = float(info.max), float(info.smallest_subnormal)
    half_step = float(info.max) * float(info.eps) / 4
    hard = [0.0, 5e-324, 1e-300, 1e300, np.inf, np.nan, largest, largest + half_step, largest * 2, smallest]
    hard += [smallest / 2, np.nextafter(smallest / 2, 1), smallest * 1.5, float(info.smallest_normal)]
    hard += [float(np.nextafter(np.float64(x), d)) for x in (largest + half_step, largest) for d in (0, np.inf)]
    values = np.array(hard + [-value for value in hard])
    rounded = round_once(values, dtype)
    assert [v for v, r in zip(values, rounded, strict=True) if not same(r, nearest(float(v), dtype))] == []


@given(st.sampled_from(NARROW), st.lists(st.floats(), min_size=1, max_size=8))
def test_any_value_rounds_to_nearest_even(name: str, values: list[float]) -> None:
    dtype = _numpy(name)
    rounded = round_once(np.array(values), dtype)
    assert all(same(r, nearest(v, dtype)) for v, r in zip(values, rounded, strict=True))


def test_integers_round_to_nearest_even_too() -> None:
    assert round_once(np.array([-1.6, -0.5, 0.5, 1.5, 2.4]), np.dtype(np.int8)).tolist() == [-2, 0, 0, 2, 2]


def _evaluator(folder: Path, values: Any, dtype: str = "F32", axis: int = 0) -> RowEvaluator:
    return RowEvaluator(Checkpoint.open(checkpoint(folder, {"t": tensor_of(values, dtype)})).rows("t", axis))


@pytest.mark.parametrize("dtype", FLOATS)
def test_mean_is_the_float64_mean_rounded_once(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(1).standard_normal((50, 64))
    evaluator = _evaluator(tmp_path, values, dtype)
    ids = (3, 41, 3, 7, 20)
    mean = evaluator.table.block(0, 50).astype(np.float64)[list(ids)].mean(axis=0)
    assert evaluator.row(MeanOf(ids), 50).tobytes() == round_once(mean, _numpy(dtype)).tobytes()


@given(st.integers(0, 2**32), st.lists(st.integers(0, 19), min_size=1, max_size=7), st.sampled_from(["BF16", "F16"]))
def test_mean_of_any_rows_is_the_exact_mean_rounded_once(seed: int, ids: list[int], dtype: str) -> None:
    values = np.random.default_rng(seed).standard_normal((20, 8)) * 4
    with tempfile.TemporaryDirectory() as folder:
        evaluator = _evaluator(Path(folder), values, dtype)
        row, table = evaluator.row(MeanOf(tuple(ids)), 20), evaluator.table.block(0, 20)
    for column, got in enumerate(row):
        exact = sum(Fraction(float(table[number, column])) for number in ids) / len(ids)
        assert same(got, nearest(float(exact), _numpy(dtype)))


def test_mean_drops_zero_rows_and_counts_repeats(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path, [[0, 0], [1, 2], [4, 0], [-0.0, 0]])
    assert evaluator.row(MeanOf((0, 1, 2, 3)), 4).tolist() == [2.5, 1.0]
    assert evaluator.row(MeanOf((1, 2, 2, 1, 2, 2)), 4).tolist() == [3.0, np.float32(2 / 3)]


def test_mean_keeps_a_row_that_is_not_a_number(tmp_path: Path) -> None:
    assert np.isnan(_evaluator(tmp_path, [[np.nan, 1], [1, 1]]).row(MeanOf((0, 1)), 2)).tolist() == [True, False]


@pytest.mark.parametrize("ids", [(), (0,), (0, 0, 4)])
@pytest.mark.parametrize("block_bytes", [8, 24, 8 << 20])
def test_mean_of_nothing_is_the_mean_of_the_ranges(
    tmp_path: Path, ids: tuple[int, ...], block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows.TableReader.blocks, "__defaults__", (block_bytes,))
    evaluator = _evaluator(tmp_path, [[0, 0], [1, 1], [2, 2], [100, 100], [0, 0], [6, 6], [100, 100]])
    assert evaluator.row(MeanOf(ids, ((0, 3), (4, 6))), 7).tolist() == [3.0, 3.0]


def test_mean_of_ranges_of_float64_is_not_narrowed(tmp_path: Path) -> None:
    value = 1 + 2**-40
    assert _evaluator(tmp_path, [[value, 1], [value, 1]], "F64").row(MeanOf((), ((0, 2),)), 2).tolist() == [value, 1]


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_any_stored_bits_give_a_row_without_a_warning(tmp_path: Path, dtype: str) -> None:
    tensor = random_tensor(dtype, (3000, 4))
    evaluator = RowEvaluator(Checkpoint.open(checkpoint(tmp_path, {"t": tensor})).rows("t"))
    assert np.isnan(evaluator.row(MeanOf((), ((0, 3000),)), 0).astype(np.float64)).any()
    assert evaluator.row(MeanOf(tuple(range(500))), 0).shape == (4,)


def test_mean_of_nothing_at_all_is_zero(tmp_path: Path) -> None:
    assert _evaluator(tmp_path, [[0, 0]]).row(MeanOf((0,), ((0, 1),)), 1).tolist() == [0, 0]


@pytest.mark.parametrize(("values", "axis"), [([0, 2, 4, 0], 0), ([[0, 2, 4, 0]], 1)])
def test_mean_of_bias_entries_keeps_zeros(tmp_path: Path, values: Any, axis: int) -> None:
    evaluator = _evaluator(tmp_path, values, axis=axis)
    assert evaluator.row(MeanOf((0, 1, 2)), 4).tolist() == [2.0]
    assert evaluator.row(MeanOf((0,), ((0, 4),)), 4).tolist() == [0.0]
    assert evaluator.row(MeanOf((), ((0, 4),)), 4).tolist() == [1.5]


@pytest.mark.parametrize("dtype", FLOATS)
def test_copy_holds_the_bits(tmp_path: Path, dtype: str) -> None:
    tensor = random_tensor(dtype, (5, 3))
    evaluator = RowEvaluator(Checkpoint.open(checkpoint(tmp_path, {"t": tensor})).rows("t"))
    assert evaluator.row(CopyOf(3), 9).tobytes() == tensor.array()[3].tobytes()


def test_zeros_are_all_bits_zero(tmp_path: Path) -> None:
    assert _evaluator(tmp_path, np.ones((2, 3)), "BF16").row(Zeros(), 2).tobytes() == bytes(6)


def test_normal_depends_on_seed_and_row_alone_and_has_the_deviation_asked_for(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path, np.ones((2, 4000)))
    row = evaluator.row(Normal(7, 0.02), 5)
    assert row.tobytes() == evaluator.row(Normal(7, 0.02), 5).tobytes()
    assert 0.019 < row.std() < 0.021 and abs(row.mean()) < 0.002
    others = [evaluator.row(Normal(7, 0.02), 6), evaluator.row(Normal(8, 0.02), 5)]
    assert all((row != other).mean() > 0.99 for other in others)


@pytest.mark.parametrize("first", FLOATS)
@pytest.mark.parametrize("second", ["F32", "BF16"])
def test_the_mean_of_two_tables_is_rounded_once(first: str, second: str, tmp_path: Path) -> None:
    """Against whole-number arithmetic; in blocks of less than a table."""
    kinds = (random_tensor(name, (7, 3), seed) for seed, name in enumerate((first, second)))
    source = Checkpoint.open(checkpoint(tmp_path / "m", dict(zip("ab", kinds, strict=True))))
    a, b = (source.rows(key).block(0, 7).astype(np.float64) for key in "ab")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("vocabsurgeon.checkpoint.evaluate._MEAN_ELEMENTS", 6)
        blocks = list(mean_blocks(source.rows("a"), source.rows("b"), source.rows("a").dtype))
    assert [start for start, _ in blocks] == [0, 2, 4, 6]
    found = np.concatenate([rows for _, rows in blocks])
    exact = np.isfinite(a) & np.isfinite(b)
    means = [Fraction(x) / 2 + Fraction(y) / 2 for x, y in zip(a[exact], b[exact], strict=True)]
    wanted = np.array([nearest(float(mean), found.dtype) for mean in means], found.dtype)
    assert np.array_equal(found[exact].view(np.uint8), wanted.view(np.uint8))
    assert not np.isfinite(found[~exact].astype(np.float64)).any()


def test_the_mean_of_two_large_numbers_is_no_infinity(tmp_path: Path) -> None:
    large = tensor_of([[1.5e308, -1.5e308]], "F64")
    source = Checkpoint.open(checkpoint(tmp_path / "m", {"a": large, "b": large}))
    [(_, rows)] = mean_blocks(source.rows("a"), source.rows("b"), source.rows("a").dtype)
    assert rows.tobytes() == large.data
