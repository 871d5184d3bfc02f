"""Layouts: offsets, order and names of what will be written; then any edits of any checkpoint against numpy."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.checkpoints import Stored, checkpoint, header_of, random_tensor, stored, stored_in, weights_file
from vocabsurgeon.checkpoint.dtypes import TABLE
from vocabsurgeon.checkpoint.edits import (
    CopyOf,
    CopyTensor,
    DropTensor,
    MeanOfTensors,
    ReplaceTensor,
    TensorEdit,
    WriteRows,
    WriteValues,
    Zeros,
)
from vocabsurgeon.checkpoint.evaluate import round_once
from vocabsurgeon.checkpoint.layout import NEW_SHARD, lay_out, total_size, weight_map
from vocabsurgeon.checkpoint.shards import Shards, read_shards
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.writer import write
from vocabsurgeon.errors import CheckpointError

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
A, B, C = random_tensor("BF16", (4, 2), 1), random_tensor("F32", (3,), 2), random_tensor("U8", (5,), 3)


def _shards(folder: Path, *tensors: dict[str, Stored]) -> Shards:
    return read_shards(checkpoint(folder, *tensors))


def _offsets(shards: Shards, *edits: TensorEdit) -> dict[str, int]:
    [layout] = lay_out(shards, edits)
    return {segment.info.key: segment.info.start - len(layout.header) for segment in layout.segments}


def _grown(key: str, size: int, old: int, axis: int = 0) -> WriteRows:
    return WriteRows(key, axis, size, tuple((number, CopyOf(0)) for number in range(old, size)))


def test_no_edit_is_a_copy_of_every_file(tmp_path: Path) -> None:
    layouts = lay_out(_shards(tmp_path, {"a": A}, {"b": B, "c": C}), [])
    assert [(layout.name, layout.copy_of) for layout in layouts] == [(FIRST, FIRST), (SECOND, SECOND)]
    assert [layout.size for layout in layouts] == [(tmp_path / name).stat().st_size for name in (FIRST, SECOND)]
    assert (total_size(layouts), weight_map(layouts)) == (33, {"a": FIRST, "b": SECOND, "c": SECOND})


def test_copy_follows_its_source_in_data_and_header(tmp_path: Path) -> None:
    shards = _shards(tmp_path, {"b": B, "a": A, "c": C})
    assert _offsets(shards, CopyTensor("head", "b")) == {"b": 0, "head": 12, "a": 24, "c": 40}
    assert list(weight_map(lay_out(shards, [CopyTensor("head", "b")]))) == ["b", "head", "a", "c"]


def test_data_order_of_the_source_is_kept(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"b": B})
    (tmp_path / "model.safetensors").write_bytes(weights_file({"a": A, "b": B, "c": C}, None, ["b", "a", "c"]))
    shards = read_shards(tmp_path)
    assert list(_offsets(shards, _grown("a", 6, 4))) == ["b", "a", "c"]
    assert _header_keys(shards, _grown("a", 6, 4)) == ["a", "b", "c"]


def _header_keys(shards: Shards, *edits: TensorEdit) -> list[str]:
    [layout] = lay_out(shards, edits)
    return [key for key in json.loads(layout.header[8:]) if key != "__metadata__"]


def test_growth_that_would_misalign_puts_wider_elements_first(tmp_path: Path) -> None:
    narrow, wide = random_tensor("F16", (4, 1)), random_tensor("F32", (2,))
    shards = _shards(tmp_path, {"n": narrow, "w": wide})
    assert _offsets(shards, _grown("n", 6, 4)) == {"n": 0, "w": 12}
    assert _offsets(shards, _grown("n", 5, 4)) == {"w": 0, "n": 8}
    assert _header_keys(shards, _grown("n", 5, 4)) == ["n", "w"]


def test_header_keeps_metadata_and_pads_the_data_to_8_bytes(tmp_path: Path) -> None:
    [layout] = lay_out(_shards(tmp_path, {"a": A, "b": B}), [DropTensor("b")])
    assert b'"__metadata__":{"format":"pt"}' in layout.header
    assert len(layout.header) % 8 == 0


def test_shard_whose_last_tensor_is_dropped_disappears(tmp_path: Path) -> None:
    layouts = lay_out(_shards(tmp_path, {"a": A}, {"b": B}), [DropTensor("b")])
    assert [layout.name for layout in layouts] == [FIRST]


def test_new_shard_of_a_single_file_makes_two(tmp_path: Path) -> None:
    layouts = lay_out(_shards(tmp_path, {"a": A}), [CopyTensor("head", "a")], new_shard=True)
    assert [(layout.name, layout.copy_of) for layout in layouts] == [(FIRST, "model.safetensors"), (SECOND, None)]


def test_new_shard_beside_shards_takes_a_free_name(tmp_path: Path) -> None:
    layouts = lay_out(_shards(tmp_path, {"a": A}, {"b": B}), [CopyTensor("head", "a")], new_shard=True)
    assert [layout.name for layout in layouts] == [FIRST, SECOND, NEW_SHARD]
    assert layouts[2].segments[0].info.file == NEW_SHARD
    headers = read_shards(tmp_path).headers
    taken = Shards({NEW_SHARD: headers[FIRST]}, read_shards(tmp_path).index)
    names = [layout.name for layout in lay_out(taken, [CopyTensor("head", "a")], new_shard=True)]
    assert names == [NEW_SHARD, "model-untied-head-2.safetensors"]


def test_new_shard_is_not_made_for_growth(tmp_path: Path) -> None:
    layouts = lay_out(_shards(tmp_path, {"a": A, "b": B}), [_grown("a", 5, 4)], new_shard=True)
    assert [layout.name for layout in layouts] == ["model.safetensors"]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([DropTensor("x")], "not stored"),
        ([CopyTensor("x", "y")], "not stored"),
        ([WriteRows("x", 0, 1, ())], "not stored"),
        ([CopyTensor("b", "a")], "stored already"),
        ([CopyTensor("x", "a"), DropTensor("a")], "edited twice"),
        ([ReplaceTensor("x", "a")], "not stored"),
        ([ReplaceTensor("a", "x")], "x: is to be read but is not stored"),
        ([MeanOfTensors("a", ("a", "x"))], "x: is to be read but is not stored"),
    ],
)
def test_edit_that_fits_no_tensor_is_an_error(tmp_path: Path, edits: list[TensorEdit], reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        lay_out(_shards(tmp_path, {"a": A, "b": B}), edits)


@pytest.mark.parametrize(
    "edit",
    [
        WriteRows("a", 0, 3, ()),
        WriteRows("a", 0, 6, ((5, Zeros()),)),
        WriteRows("a", 0, 5, ((4, Zeros()), (4, CopyOf(0)))),
        WriteRows("a", 0, 4, ((4, Zeros()),)),
        WriteRows("a", 0, 4, ((-1, Zeros()),)),
        WriteRows("a", 2, 4, ()),
    ],
)
def test_rows_that_do_not_fill_the_size_are_a_faulty_plan(tmp_path: Path, edit: WriteRows) -> None:
    with pytest.raises(ValueError, match="a: rows of"):
        lay_out(_shards(tmp_path, {"a": A}), [edit])


@pytest.mark.parametrize("edit", [WriteValues("a", (1.0,)), MeanOfTensors("a", ("a", "b"))], ids=["values", "mean"])
def test_values_that_do_not_fill_the_tensor_are_a_faulty_plan(tmp_path: Path, edit: TensorEdit) -> None:
    with pytest.raises(ValueError, match="a"):
        lay_out(_shards(tmp_path, {"a": A, "b": B}), [edit])


def test_a_replaced_tensor_takes_dtype_and_shape_of_the_other_and_keeps_its_own_place(tmp_path: Path) -> None:
    wide = random_tensor("F32", (2, 2))
    layouts = lay_out(
        _shards(tmp_path, {"b": B, "a": A, "c": C}, {"w": wide}), [ReplaceTensor("a", "w"), DropTensor("w")]
    )
    [layout] = layouts
    assert [segment.info.key for segment in layout.segments] == ["b", "a", "c"]
    assert (layout.segments[1].info.dtype.name, layout.segments[1].info.shape) == ("F32", (2, 2))


@dataclass(frozen=True)
class Case:
    """A checkpoint, edits of it, and whether new tensors get a shard of their own."""

    shards: tuple[dict[str, Stored], ...]
    data_orders: tuple[list[str], ...]
    edits: tuple[TensorEdit, ...]
    link: bool


_NUMPY = [dtype.name for dtype in TABLE if dtype.numpy is not None]
_KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda k: k != "__metadata__")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Random tensors of every dtype in random data order over up to three shards, with up to three edits."""
    keys = draw(st.lists(_KEYS, min_size=1, max_size=6, unique=True))
    shapes = st.lists(st.integers(0, 4), min_size=0, max_size=3)
    tensors = {key: random_tensor(draw(st.sampled_from(_NUMPY)), draw(shapes), n) for n, key in enumerate(keys)}
    count = draw(st.integers(1, min(3, len(keys))))
    shards = tuple({key: tensors[key] for key in keys[number::count]} for number in range(count))
    orders = tuple(draw(st.permutations(list(shard))) for shard in shards)
    edited = draw(st.lists(st.sampled_from(keys), max_size=3, unique=True))
    edits = tuple(draw(_edit(key, tensors, f"{n} copy of {key}")) for n, key in enumerate(edited))
    return Case(shards, orders, edits if len(edits) < len(keys) else (), draw(st.booleans()))


def _edit(key: str, tensors: dict[str, Stored], copy: str) -> st.SearchStrategy[TensorEdit]:
    tensor, size = tensors[key], int(np.prod(tensors[key].shape))
    numbers = st.lists(st.sampled_from((0.0, 1.0, 3.25, 300.7)), min_size=size, max_size=size)
    others: st.SearchStrategy[TensorEdit] = st.just(DropTensor(key)) | st.just(CopyTensor(copy, key))
    others |= st.builds(ReplaceTensor, st.just(key), st.sampled_from(sorted(tensors)))
    others |= st.builds(WriteValues, st.just(key), numbers.map(tuple))
    return others | _row_edits(key, tensor) if tensor.shape else others


@st.composite
def _row_edits(draw: st.DrawFn, key: str, tensor: Stored) -> WriteRows:
    axis = draw(st.integers(0, len(tensor.shape) - 1))
    old = tensor.shape[axis]
    size = old + draw(st.integers(0, 3))
    rewritten = draw(st.sets(st.integers(0, old - 1))) if old else set()
    expressions = st.just(Zeros()) | (st.builds(CopyOf, st.integers(0, old - 1)) if old else st.nothing())
    rows = [(number, draw(expressions)) for number in {*rewritten, *range(old, size)}]
    return WriteRows(key, axis, size, tuple(draw(st.permutations(rows))))


def _modeled(tensors: dict[str, Stored], edits: tuple[TensorEdit, ...]) -> dict[str, Stored]:
    """What numpy makes of the edits, all at once on whole arrays."""
    result = dict(tensors)
    for edit in edits:
        if isinstance(edit, DropTensor):
            del result[edit.key]
        elif isinstance(edit, CopyTensor | ReplaceTensor):
            result[edit.key] = tensors[edit.source]
        elif isinstance(edit, WriteValues):
            old = tensors[edit.key]
            values = round_once(np.array(edit.values, np.float64), old.array().dtype)
            result[edit.key] = Stored(old.dtype, old.shape, values.tobytes())
        else:
            assert isinstance(edit, WriteRows)
            result[edit.key] = _with_rows(tensors[edit.key], edit)
    return result


def _with_rows(tensor: Stored, edit: WriteRows) -> Stored:
    old: np.ndarray[Any, Any] = np.moveaxis(tensor.array(), edit.axis, 0)
    new = np.zeros((edit.size, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    for number, expression in edit.rows:
        new[number] = old[expression.id] if isinstance(expression, CopyOf) else 0
    moved = np.moveaxis(new, 0, edit.axis)
    return Stored(tensor.dtype, moved.shape, moved.tobytes())


@given(cases())
def test_any_edits_of_any_checkpoint_give_what_numpy_gives(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "source"), Path(folder, "out")
        checkpoint(source, *case.shards)
        for number, (tensors, order) in enumerate(zip(case.shards, case.data_orders, strict=True), 1):
            name = (
                f"model-{number:05}-of-{len(case.shards):05}.safetensors"
                if len(case.shards) > 1
                else "model.safetensors"
            )
            (source / name).write_bytes(weights_file(tensors, {"format": "pt"}, order))
        out.mkdir()
        write(Checkpoint.open(source), case.edits, (), out, link=case.link)
        everything = {key: tensor for tensors in case.shards for key, tensor in tensors.items()}
        assert stored(out) == _modeled(everything, case.edits)
        result = Checkpoint.open(out)
        untouched = {path.read_bytes() for path in source.glob("*.safetensors")}
        for name in result.shards.headers:
            content = (out / name).read_bytes()
            assert content in untouched or _aligned(out / name)
            assert header_of(out / name)["__metadata__"] == {"format": "pt"}
        if result.shards.index is not None and case.edits:
            assert result.shards.index.value["metadata"]["total_size"] == result.shards.total_size


def _aligned(file: Path) -> bool:
    header = {key: entry for key, entry in header_of(file).items() if key != "__metadata__"}
    sizes = {key: tensor.array().dtype.itemsize for key, tensor in stored_in(file).items()}
    data_start = file.stat().st_size - sum(len(tensor.data) for tensor in stored_in(file).values())
    return all((data_start + entry["data_offsets"][0]) % sizes[key] == 0 for key, entry in header.items())
