"""Content identity: equal and transposed copies are found wherever they lie; what only looks alike is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.onnx.handmade import DATA, external, save, save_external, table
from vocabsurgeon.onnx import duplicates as module
from vocabsurgeon.onnx.duplicates import find_duplicates, unique_bytes
from vocabsurgeon.onnx.files import read_onnx


def found(folder: Path, arrays: Mapping[str, np.ndarray]) -> list[tuple[list[str], str, int]]:
    tensors = read_onnx(save_external(folder, arrays)).tensors
    return [([t.name for t in d.tensors], d.relation, d.wasted) for d in find_duplicates(tensors)]


def test_an_equal_copy_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, {"a": table(), "b": table(seed=1), "c": table()}) == [(["a", "c"], "equal", 960)]


def test_a_transposed_copy_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, {"a": table(), "b": table().T.copy()}) == [(["a", "b"], "transposed", 960)]


def test_different_content_is_no_duplicate(tmp_path: Path) -> None:
    assert found(tmp_path, {"a": table(), "b": table(seed=1), "c": table(seed=1).T.copy() * 2}) == []


@pytest.mark.parametrize("turned", [False, True])
def test_one_changed_bit_anywhere_is_no_duplicate(tmp_path: Path, turned: bool) -> None:
    for at in range(0, 240, 7):
        other = table()
        other.view(np.uint32).ravel()[at] ^= 1
        assert found(tmp_path / str(at), {"a": table(), "b": other.T.copy() if turned else other}) == []


def test_nan_and_signed_zero_are_compared_as_bits(tmp_path: Path) -> None:
    nan = table()
    nan[3] = np.nan
    zero, negative = np.zeros((6, 6), np.float32), np.full((6, 6), -0.0, np.float32)
    assert found(tmp_path, {"a": nan, "b": nan.copy(), "c": zero, "d": negative}) == [(["a", "b"], "equal", 960)]


def test_the_same_bytes_in_another_element_type_are_no_duplicate(tmp_path: Path) -> None:
    assert found(tmp_path, {"a": np.zeros((8, 8), np.float32), "b": np.zeros((8, 8), np.int32)}) == []


def test_equal_bytes_in_another_shape_are_equal(tmp_path: Path) -> None:
    assert found(tmp_path, {"a": table(), "b": table().reshape(1, 24, 10), "c": table().reshape(2, 120)}) == [
        (["a", "b", "c"], "equal", 1920)
    ]


def test_wasted_bytes_of_equal_and_transposed_copies_add_up(tmp_path: Path) -> None:
    arrays = {"a": table(), "b": table(), "c": table().T.copy(), "d": table().T.copy(), "e": table(seed=5)}
    tensors = read_onnx(save_external(tmp_path, arrays)).tensors
    duplicates = find_duplicates(tensors)
    assert sum(duplicate.wasted for duplicate in duplicates) == 3 * 960
    assert unique_bytes(tensors, duplicates) == 2 * 960


def test_two_names_for_one_place_are_one_tensor(tmp_path: Path) -> None:
    (tmp_path / DATA).write_bytes(table().tobytes())
    path = save(tmp_path / "m.onnx", [external("a", 1, [24, 10]), external("b", 1, [10, 24])])
    tensors = read_onnx(path).tensors
    assert find_duplicates(tensors) == []
    assert unique_bytes(tensors, []) == 960


def test_the_worst_copy_comes_first(tmp_path: Path) -> None:
    arrays = {"a": table(), "b": table(), "c": table(50, 20), "d": table(50, 20)}
    assert [wasted for _, _, wasted in found(tmp_path, arrays)] == [4000, 960]


@pytest.mark.parametrize("shape", [(37, 11), (11, 37), (64, 64), (1, 90), (90, 1)])
def test_comparison_in_small_tiles_gives_the_same_answer(
    tmp_path: Path, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 256)
    monkeypatch.setattr(module, "TILE_SIDE", 5)
    array = table(*shape)
    relation = "equal" if 1 in shape else "transposed"
    assert found(tmp_path / "same", {"a": array, "b": array.T.copy()}) == [(["a", "b"], relation, array.nbytes)]
    other = array.copy()
    other[-1, -2 if shape[1] > 1 else 0] += 1
    assert found(tmp_path / "other", {"a": array, "b": other.T.copy()}) == []


def test_memory_stays_within_blocks(tmp_path: Path) -> None:
    import tracemalloc

    array = table(4096, 1536)
    tensors = read_onnx(save_external(tmp_path, {"a": array, "b": array.T.copy(), "c": array})).tensors
    del array
    tracemalloc.start()
    assert len(find_duplicates(tensors)) == 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * module.BLOCK_BYTES
