"""Headers: exact bytes, the safetensors library as the second opinion, and any bytes at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

from tests.faults.checkpoints import Stored, random_tensor, raw_file, weights_file
from vocabsurgeon.checkpoint.dtypes import TABLE, by_name
from vocabsurgeon.checkpoint.header import Header, TensorInfo, encode_header, read_header
from vocabsurgeon.errors import HeaderError

NAME = "model.safetensors"


def test_encode_header_writes_these_bytes() -> None:
    tensors = [
        TensorInfo("b", by_name()["BF16"], (2, 3), NAME, 8, 20),
        TensorInfo("ä\n", by_name()["F64"], (), NAME, 0, 8),
    ]
    text = (
        '{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},'
        '"ä\\n":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}'
    ).encode()
    padded = text + b" " * (-len(text) % 8)
    assert encode_header(tensors, {"format": "pt"}) == len(padded).to_bytes(8, "little") + padded


@pytest.mark.parametrize("count", range(8))
def test_encode_header_starts_the_data_at_a_multiple_of_8(count: int) -> None:
    assert len(encode_header([], {"k": "x" * count})) % 8 == 0


def test_read_header_keeps_key_order_and_finds_data_order(tmp_path: Path) -> None:
    tensors = {key: random_tensor("F32", (2,)) for key in "cab"}
    header = _read(tmp_path, weights_file(tensors, {"z": "1", "a": "2"}, data_order=["b", "c", "a"]))
    assert [info.key for info in header.tensors] == ["c", "a", "b"]
    assert [info.key for info in header.in_data_order()] == ["b", "c", "a"]
    assert list(header.metadata or ()) == ["z", "a"]


def test_read_header_accepts_an_empty_file_of_no_tensors(tmp_path: Path) -> None:
    assert _read(tmp_path, raw_file(b"{}")).tensors == ()


def test_read_header_reads_no_data(tmp_path: Path) -> None:
    size = 1 << 40
    header = {"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    path = tmp_path / NAME
    path.write_bytes(raw_file(header))
    os.truncate(path, path.stat().st_size + size)
    assert read_header(path, NAME).tensors[0].nbytes == size


_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda key: key != "__metadata__")
_SHAPES = st.lists(st.integers(0, 3), max_size=4).map(lambda shape: [*shape, 4])
_TENSORS = st.builds(random_tensor, st.sampled_from([dtype.name for dtype in TABLE]), _SHAPES, st.integers(0, 9))
_METADATA = st.none() | st.dictionaries(_KEYS, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))


@given(st.dictionaries(_KEYS, _TENSORS, max_size=6), _METADATA, st.randoms())
def test_what_we_read_is_what_safetensors_reads(tensors: dict[str, Stored], metadata: Any, random: Any) -> None:
    order = list(tensors)
    random.shuffle(order)
    content = weights_file(tensors, metadata, order)
    header = _read_temporary(content)
    assert header.metadata == metadata
    assert list(tensors) == [info.key for info in header.tensors]
    assert _seen_by_us(header, content) == _seen_by_safetensors(content) == tensors


@given(st.dictionaries(_KEYS, _TENSORS, max_size=6), _METADATA)
def test_a_header_written_and_read_is_the_same(tensors: dict[str, Stored], metadata: Any) -> None:
    first = _read_temporary(weights_file(tensors, metadata))
    relative = [
        TensorInfo(info.key, info.dtype, info.shape, NAME, info.start - first.data_start, info.end - first.data_start)
        for info in first.tensors
    ]
    data = b"".join(tensor.data for tensor in tensors.values())
    assert _read_temporary(encode_header(relative, metadata) + data) == first


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
_ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "F4", "f32", "U8"]) | _JSON,
        "shape": st.lists(st.integers(-1, 4) | st.integers(), max_size=3) | _JSON,
        "data_offsets": st.lists(st.integers(-1, 20), min_size=2, max_size=2) | _JSON,
        "more": _JSON,
    },
)
_HEADERS = st.dictionaries(st.sampled_from(["a", "b", "__metadata__", "\ud800"]), _ENTRIES | _JSON, max_size=3).map(
    lambda document: json.dumps(document).encode()
)


@given(st.binary(max_size=60) | st.builds(raw_file, _HEADERS | st.binary(max_size=40), st.binary(max_size=24)))
def test_any_bytes_give_a_valid_header_or_a_header_error(content: bytes) -> None:
    try:
        header = _read_temporary(content)
    except HeaderError as error:
        assert "\n" not in str(error)
    else:
        assert _seen_by_us(header, content) == _seen_by_safetensors(content)


def test_the_second_opinion_does_refuse() -> None:
    with pytest.raises(SafetensorError):
        _seen_by_safetensors(raw_file({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 1]}}, b"x"))


def _read(folder: Path, content: bytes) -> Header:
    path = folder / NAME
    path.write_bytes(content)
    return read_header(path, NAME)


def _read_temporary(content: bytes) -> Header:
    with tempfile.TemporaryDirectory() as folder:
        return _read(Path(folder), content)


def _seen_by_us(header: Header, content: bytes) -> dict[str, Stored]:
    return {info.key: Stored(info.dtype.name, info.shape, content[info.start : info.end]) for info in header.tensors}


def _seen_by_safetensors(content: bytes) -> dict[str, Stored]:
    return {
        key: Stored(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"])) for key, entry in deserialize(content)
    }
