"""Which files hold the weights: one file, or an index over several; every other layout gets a line that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checkpoints import checkpoint, random_tensor, weights_file
from vocabsurgeon.checkpoint.shards import INDEX, SINGLE, Beside, beside, read_shards
from vocabsurgeon.errors import CheckpointError, HeaderError

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
        ("weights.safetensors", "rename it to model.safetensors"),
        ("adapter_model.safetensors", "fetch model.safetensors, or model.safetensors.index.json and every file"),
        ("model-2.safetensors", "fetch model.safetensors, or model.safetensors.index.json and every file"),
        ("model-00001-of-00002.safetensors", r"only .* \(1 of 2; number 2 is not there\); fetch the missing files"),
        ("README.md", "neither model.safetensors nor"),
    ],
)
def test_other_weights_are_named_with_advice(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).write_bytes(weights_file({}))
    with pytest.raises(CheckpointError, match=advice):
        read_shards(tmp_path)


def _unindexed(folder: Path, *names: str) -> Path:
    """The three tensors over files of these names, without an index."""
    for name, (key, tensor) in zip(names, {"a": A, "b": B, "c": C}.items(), strict=False):
        (folder / name).write_bytes(weights_file({key: tensor}, {"format": "pt"}))
    return folder


@pytest.mark.parametrize(
    "names",
    [
        tuple(f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)),
        tuple(f"model-{number:05}-of-00003.safetensors" for number in (0, 1, 2)),
        tuple(f"weights_{number}-of-3.safetensors" for number in (1, 2, 3)),
        tuple(f"{number}-of-3.safetensors" for number in (1, 2, 3)),
        ("model-00001-of-00001.safetensors",),
    ],
)
def test_a_complete_numbered_set_is_read_whole_without_an_index(tmp_path: Path, names: tuple[str, ...]) -> None:
    shards = read_shards(_unindexed(tmp_path, *names))
    assert tuple(shards.headers) == names == shards.files
    assert list(shards.tensors) == ["a", "b", "c"][: len(names)]
    assert shards.unindexed and shards.index is None


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"), "2 of 3; number 2 is not there"),
        (("model-1-of-1.safetensors", "model-1-of-2.safetensors"), "keep the set that counts"),
        (("a-1-of-1.safetensors", "b-1-of-1.safetensors"), "keep the set that counts"),
        (("one.safetensors", "two.safetensors"), "only one.safetensors, two.safetensors; fetch model.safetensors, or"),
        (("adapter-1-of-1.safetensors",), "fetch model.safetensors, or"),
        (("model.safetensors", "model-00002-of-00002.safetensors"), "call it model-00001-of-00002.safetensors again"),
        (("model.safetensors", "model-1-of-2.safetensors", "model-2-of-2.safetensors"), "move the numbered files"),
    ],
)
def test_what_is_no_complete_set_is_refused_and_nothing_is_lost_by_the_advice(
    tmp_path: Path, names: tuple[str, ...], told: str
) -> None:
    with pytest.raises(CheckpointError) as error:
        read_shards(_unindexed(tmp_path, *names))
    assert told in str(error.value) and "rename it" not in str(error.value)


def test_the_models_own_set_counts_before_another(tmp_path: Path) -> None:
    names = ("consolidated-1-of-1.safetensors", "model-1-of-1.safetensors")
    assert list(read_shards(_unindexed(tmp_path, *names)).headers) == [names[1]]


def test_a_tensor_in_two_files_is_told_with_both(tmp_path: Path) -> None:
    names = [f"model-{number:05}-of-00002.safetensors" for number in (1, 2)]
    for name in names:
        (tmp_path / name).write_bytes(weights_file({"a": A, "b": B}))
    with pytest.raises(HeaderError, match=f"is stored in two shards, {names[0]} and {names[1]}, and so are 1 more"):
        read_shards(tmp_path)


def test_weights_beside_those_that_are_read(tmp_path: Path) -> None:
    shards = read_shards(checkpoint(tmp_path, {"a": A}, {"b": B}))
    read = tuple(shards.files)
    others = ("pytorch_model.bin", "pytorch_model-1-of-1.bin", "pytorch_model.bin.index.json")
    stale = "model-00003-of-00003.safetensors"
    found = beside((*read, *others, stale, "consolidated.safetensors", "onnx/pytorch_model.bin"), shards)
    assert found.other_format == tuple(sorted(others)) and found.unnamed == (stale,)
    assert beside(read, shards) == Beside((), ())
