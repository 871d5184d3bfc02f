"""`read_onnx` finds every tensor where it lies, reads no weights, and refuses what cannot be trusted."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.handmade import DATA, external, inline, save, save_external, table
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.tensors import StoredTensor

FLOAT = TensorProto.FLOAT


def content(tensor: StoredTensor) -> bytes:
    with OpenFiles() as files:
        return tensor.read(files[tensor], 0, tensor.nbytes).tobytes()


@pytest.mark.parametrize(
    "array",
    [
        table(),
        np.arange(7, dtype=np.int64),
        np.array(3.5, dtype=np.float64),
        np.zeros((0, 4), np.float32),
        np.arange(9, dtype=np.float16),
        np.array([True, False]),
    ],
    ids=str,
)
@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_inline_tensors_are_read_as_onnx_reads_them(tmp_path: Path, array: np.ndarray, typed: bool) -> None:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = helper.make_tensor("t", kind, array.shape, array.ravel()) if typed else inline("t", array)
    (found,) = read_onnx(save(tmp_path / "m.onnx", [tensor])).tensors
    assert (found.name, found.shape, found.external) == ("t", array.shape, False)
    assert content(found) == array.tobytes() == numpy_helper.to_array(tensor).tobytes()


@pytest.mark.parametrize(
    ("kind", "bits"),
    [(TensorProto.INT4, 4), (TensorProto.UINT4, 4), (TensorProto.BFLOAT16, 16), (TensorProto.FLOAT8E4M3FN, 8)],
)
def test_numbers_of_few_bits_that_are_coded_one_by_one_are_packed(tmp_path: Path, kind: int, bits: int) -> None:
    tensor = helper.make_tensor("w", kind, [5, 3], [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7])
    assert not tensor.raw_data
    (found,) = read_onnx(save(tmp_path / "m.onnx", [tensor])).tensors
    assert found.nbytes == -(-15 * bits // 8)
    assert content(found) == numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data


def test_external_tensors_are_found_at_their_offset(tmp_path: Path) -> None:
    arrays = {"a": table(), "b": table(seed=1)}
    file = read_onnx(save_external(tmp_path, arrays))
    assert [(t.name, t.offset, t.nbytes, t.external) for t in file.tensors] == [
        ("a", 0, 960, True),
        ("b", 960, 960, True),
    ]
    assert [content(tensor) for tensor in file.tensors] == [array.tobytes() for array in arrays.values()]
    assert file.data_files == (tmp_path / DATA,)


def test_offset_and_length_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / DATA).write_bytes(bytes(16))
    file = read_onnx(save(tmp_path / "m.onnx", [external("a", FLOAT, [4], None, None)]))
    assert (file.tensors[0].offset, file.tensors[0].nbytes) == (0, 16)


def test_graph_bytes_are_the_file_without_its_inline_weights(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [inline("a", table())])
    assert read_onnx(path).graph_bytes == path.stat().st_size - 960


def test_uses_name_the_operators_that_read_a_tensor(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["a", "ids"], ["x"]),
        helper.make_node("Transpose", ["a"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", [inline("a", table()), inline("ids", np.arange(3))], nodes)
    assert read_onnx(path).tensors[0].uses == ("Gather", "Transpose")


def test_tensors_of_branches_are_found(tmp_path: Path) -> None:
    branch = helper.make_graph([helper.make_node("Identity", ["w"], ["o"])], "then", [], [], [inline("w", table())])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    path = save(tmp_path / "m.onnx", [inline("c", np.array(True))], [node])
    assert [tensor.name for tensor in read_onnx(path).tensors] == ["w", "w", "c"]


def test_large_constants_count_as_weights_and_small_ones_as_graph(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["large"], value=inline("", table(16, 16))),
        helper.make_node("Constant", [], ["small"], value=inline("", table(15, 17)[:, :16])),
    ]
    path = save(tmp_path / "m.onnx", [], nodes)
    assert [tensor.name for tensor in read_onnx(path).tensors] == ["large"]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../secret", "outside the folder"),
        ("/etc/passwd", "outside the folder"),
        ("a/../../secret", "outside the folder"),
        ("..\\secret", "outside the folder"),
        ("", "outside the folder"),
        ("link", "link out of the folder"),
        ("absent", "cannot be read"),
        ("sub", "not a file"),
    ],
)
def test_references_that_lead_elsewhere_are_refused(tmp_path: Path, location: str, message: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "export"
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "secret")
    path = save(folder / "m.onnx", [external("a", FLOAT, [4], 0, 16, location)])
    with pytest.raises(OnnxError, match=message):
        read_onnx(path)


def test_links_within_a_hub_cache_entry_are_followed(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--x" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--x" / "blobs").mkdir()
    (tmp_path / "models--x" / "blobs" / "0").write_bytes(bytes(16))
    (snapshot / DATA).symlink_to(tmp_path / "models--x" / "blobs" / "0")
    assert read_onnx(save(snapshot / "m.onnx", [external("a", FLOAT, [4])])).tensors[0].nbytes == 16


def test_a_data_file_cut_short_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    path = save_external(tmp_path, {"a": table(), "b": table(seed=1)})
    with open(tmp_path / DATA, "r+b") as file:
        file.truncate(1900)
    with pytest.raises(OnnxError, match=r"tensor b: needs bytes 960 to 1920 of model\.onnx_data, which ends at 1900"):
        read_onnx(path)


@pytest.mark.parametrize(
    "tensor",
    [
        external("a", FLOAT, [4], 0, 12),
        external("a", FLOAT, [-1]),
        external("a", FLOAT, [4], -4),
        external("a", FLOAT, [4], "x"),  # type: ignore[arg-type]
        TensorProto(name="a", data_type=FLOAT, dims=[4], raw_data=bytes(12)),
        TensorProto(name="a", data_type=FLOAT, dims=[4]),
    ],
    ids=["length", "shape", "negative offset", "offset", "raw too short", "nothing"],
)
def test_sizes_that_contradict_the_shape_are_errors(tmp_path: Path, tensor: TensorProto) -> None:
    (tmp_path / DATA).write_bytes(bytes(64))
    with pytest.raises(OnnxError):
        read_onnx(save(tmp_path / "m.onnx", [tensor]))


@pytest.mark.parametrize("junk", [b"", b"\x00", b"not onnx at all", bytes(1000), b"\x3a\xff\xff\xff\xff\x0f"])
def test_what_is_no_onnx_file_is_an_error(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(junk)
    with pytest.raises(OnnxError):
        read_onnx(tmp_path / "m.onnx")


def test_any_truncation_of_a_file_is_an_onnx_error_or_a_shorter_file(tmp_path: Path) -> None:
    whole = save(tmp_path / "m.onnx", [inline("a", table(4, 4)), inline("b", np.arange(5))]).read_bytes()
    for end in range(len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:end])
        try:
            read_onnx(tmp_path / "m.onnx")
        except OnnxError:
            continue
        onnx.load_model_from_string(whole[:end])  # where we read it, so does onnx


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_files_are_onnx_errors_and_nothing_else(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = save_external(folder, {"a": table(4, 4), "b": np.arange(3)})
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            tensors = read_onnx(path).tensors
        except OnnxError as error:
            assert "\n" not in str(error)
        else:
            assert all(folder in tensor.path.parents for tensor in tensors)


def test_graphs_nested_beyond_reason_are_refused(tmp_path: Path) -> None:
    graph = helper.make_graph([], "leaf", [], [])
    for _ in range(20):
        graph = helper.make_graph([helper.make_node("Loop", [], ["o"], body=graph)], "g", [], [])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(OnnxError, match="nested"):
        read_onnx(tmp_path / "m.onnx")
