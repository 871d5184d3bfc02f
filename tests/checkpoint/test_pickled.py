"""`pytorch_model.bin` read as data: every tensor where and what torch's own `weights_only` loader says it is."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.checkpoints import checkpoint, tensor_of
from tests.models.pickled import loaded, save
from vocabsurgeon.checkpoint.dtypes import TABLE
from vocabsurgeon.checkpoint.header import Header
from vocabsurgeon.checkpoint.pickled.read import dense_order, read_pickled
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.shards import read_shards, safetensors_name
from vocabsurgeon.errors import CheckpointError

NAME = "pytorch_model.bin"
FORMATS = pytest.mark.parametrize("old", [False, True], ids=["zip", "before 1.6"])


def _read(state: object, folder: Path, *, old: bool = False) -> Header:
    return read_pickled(save(state, folder / NAME, old=old), NAME)


def _bytes(path: Path, header: Header, key: str) -> bytes:
    info = next(info for info in header.tensors if info.key == key)
    if not info.shape:
        return path.read_bytes()[info.start : info.end]
    return TableReader(path, info).block(0, info.rows).tobytes()


def _raw(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _state() -> OrderedDict[str, torch.Tensor]:
    torch.manual_seed(0)
    table = torch.randn(8, 4)
    state = OrderedDict(
        table=table,
        alias=table,
        slice=torch.arange(20).reshape(10, 2)[3:6],
        transposed=torch.randn(5, 7).t(),
        permuted=torch.randn(2, 3, 5, 1).permute(2, 3, 0, 1),
        ones=torch.randn(1, 6).t(),
        scalar=torch.tensor(3.5),
        empty=torch.zeros(0, 4),
        parameter=torch.nn.Parameter(torch.randn(2, 2).bfloat16()),
    )
    state["a name of many signs: ä, 字"] = torch.ones(3, dtype=torch.bool)
    return state


@FORMATS
def test_every_tensor_is_what_the_weights_only_loader_gives(tmp_path: Path, old: bool) -> None:
    header = _read(_state(), tmp_path, old=old)
    wanted = loaded(tmp_path / NAME)
    assert [info.key for info in header.tensors] == list(wanted)
    for info in header.tensors:
        tensor = wanted[info.key]
        assert (info.shape, f"torch.{info.dtype.torch}") == (tuple(tensor.shape), str(tensor.dtype))
        assert info.nbytes == tensor.nbytes and info.file == NAME
        assert _bytes(tmp_path / NAME, header, info.key) == _raw(tensor), info.key


@pytest.mark.parametrize("name", [row.torch for row in TABLE if row.torch and row.numpy is not None])
def test_every_dtype_that_safetensors_and_torch_share(name: str, tmp_path: Path) -> None:
    bits = torch.randint(0, 2 if name == "bool" else 256, (3, 16), dtype=torch.uint8)
    state = {"t": bits.view(getattr(torch, name))}
    header = _read(state, tmp_path)
    assert header.tensors[0].dtype.torch == name and _bytes(tmp_path / NAME, header, "t") == _raw(state["t"])


@FORMATS
def test_tensors_of_one_storage_point_at_the_same_bytes(tmp_path: Path, old: bool) -> None:
    places = {info.key: (info.start, info.end) for info in _read(_state(), tmp_path, old=old).tensors}
    assert places["table"] == places["alias"] != places["slice"]


def test_attributes_of_the_dictionary_are_dropped(tmp_path: Path) -> None:
    state = torch.nn.Linear(2, 3).state_dict()
    assert "_metadata" in vars(state)
    assert [info.key for info in _read(state, tmp_path).tensors] == ["weight", "bias"]


def test_reading_a_state_dict_reads_no_tensor_data(tmp_path: Path) -> None:
    """A file that is as long as it says and holds nothing where the data would be gives the same header."""
    state = {"big": torch.ones(1 << 20), "small": torch.ones(2)}
    path = save(state, tmp_path / NAME)
    before = read_pickled(path, NAME)
    with path.open("r+b") as file:
        for info in before.tensors:
            file.seek(info.start)
            file.write(b"\0" * info.nbytes)
    assert read_pickled(path, NAME) == before


def test_reading_needs_neither_torch_nor_pickle(tmp_path: Path) -> None:
    """A fresh interpreter in which unpickling anything fails opens the checkpoint, and torch stays out."""
    checkpoint(tmp_path, {"t": tensor_of([[1.0]])})
    (tmp_path / "model.safetensors").unlink()
    save(_state(), tmp_path / NAME)
    program = f"""
import pickle, sys
def no(*arguments, **named): raise AssertionError("unpickled")
class Unpickler:
    __init__ = no
pickle.load = pickle.loads = pickle._load = pickle._loads = no
pickle.Unpickler = pickle._Unpickler = Unpickler
from vocabsurgeon.checkpoint.source import Checkpoint
source = Checkpoint.open({str(tmp_path)!r})
print(len(source.tensors), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(_state())), "False"]


@given(st.permutations(range(3)), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_dense_order_is_the_order_that_torch_means(order: list[int], lengths: list[int]) -> None:
    tensor = torch.arange(lengths[0] * lengths[1] * lengths[2]).reshape(lengths).permute(order)
    found = dense_order(tuple(tensor.shape), tensor.stride())
    assert found is not None and bool(found == ()) == tensor.is_contiguous()
    again = tensor.permute(found) if found else tensor
    assert again.is_contiguous()


@pytest.mark.parametrize(("shape", "stride"), [((2, 3), (4, 1)), ((2, 3), (0, 1)), ((4,), (2,)), ((2, 2), (1, 1))])
def test_gaps_and_repeats_are_not_dense(shape: tuple[int, ...], stride: tuple[int, ...]) -> None:
    assert dense_order(shape, stride) is None


def test_safetensors_count_where_both_are_there(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"t": tensor_of([[1.0]])})
    (tmp_path / NAME).write_bytes(b"nothing that anybody reads")
    assert not read_shards(tmp_path).pickled


def test_index_and_lone_file_that_differ_are_refused(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.index.json").write_text('{"weight_map": {"t": "other.bin"}}')
    save({"t": torch.ones(1)}, tmp_path / NAME)
    with pytest.raises(CheckpointError, match=r"lies beside pytorch_model\.bin\.index\.json"):
        read_shards(tmp_path)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pytorch_model.bin", "model.safetensors"),
        ("pytorch_model-00001-of-00002.bin", "model-00001-of-00002.safetensors"),
        ("weights.bin", "weights.safetensors"),
        ("weights", "weights.safetensors"),
    ],
)
def test_names_as_safetensors(name: str, wanted: str) -> None:
    assert safetensors_name(name) == wanted
