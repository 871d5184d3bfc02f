"""Which files hold the weights: one file, or an index over several; every other layout gets a line that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checkpoints import checkpoint, random_tensor, weights_file
from vocabsurgeon.checkpoint.shards import INDEX, SINGLE, read_shards
from vocabsurgeon.errors import CheckpointError

A, B, C = (random_tensor("F32", (count, 2), count) for count in (8, 3, 5))


def test_single_file_is_read_without_an_index(tmp_path: Path) -> None:
    shards = read_shards(checkpoint(tmp_path, {"b": B, "a": A}))
    assert (list(shards.headers), list(shards.tensors), shards.index) == ([SINGLE], ["b", "a"], None)
    assert shards.total_size == 88


def test_shards_are_read_in_the_order_of_the_index(tmp_path: Path) -> None:
    shards = read_shards(checkpoint(tmp_path, {"c": C, "a": A}, {"b": B}))
    assert list(shards.headers) == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert list(shards.tensors) == ["c", "a", "b"]
    assert shards.tensors["b"].file == "model-00002-of-00002.safetensors"
    assert shards.total_size == 128


def test_index_keeps_every_byte_line_ends_included(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {"a": A}, {"b": B}) / INDEX
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    index = read_shards(tmp_path).index
    assert index is not None and index.text.encode() == path.read_bytes()


def test_index_over_the_single_file_is_an_index(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"a": A})
    (tmp_path / INDEX).write_text('{"weight_map": {"a": "model.safetensors"}}')
    assert list(read_shards(tmp_path).headers) == [SINGLE] and read_shards(tmp_path).index is not None


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tf_model.h5", "TensorFlow"),
        ("flax_model.msgpack", "Flax"),
        ("adapter.safetensors", "rename it to model.safetensors"),
        ("README.md", "neither model.safetensors nor"),
    ],
)
def test_other_weights_are_named_with_advice(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).write_bytes(weights_file({}))
    with pytest.raises(CheckpointError, match=advice):
        read_shards(tmp_path)
