"""What graphs hold besides plain weights survives `dedupe`: nested graphs, functions, outputs, quantized weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx.exports import KINDS, ROWS, WIDTH, decoder, model, placed, value, weights, write
from tests.onnx.handmade import DATA, Array, external, inline, table
from tests.onnx.test_dedupe import deduped, outputs
from tests.onnx.test_twins import QUANTIZERS, tied
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.dedupe.operate import dedupe
from vocabsurgeon.onnx.dedupe.options import DedupeOptions

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
IDS = np.array([[3, 1, 4]])


def graph_of(path: Path) -> onnx.GraphProto:
    made: onnx.GraphProto = onnx.load(path, load_external_data=False).graph
    return made


def names(path: Path) -> list[str]:
    return [tensor.name for tensor in graph_of(path).initializer]


def lookups(keys: Sequence[str], tensors: Sequence[TensorProto], **more: Any) -> onnx.ModelProto:
    """`Gather(key, ids)` for each key."""
    nodes = [helper.make_node("Gather", [key, "input_ids"], [f"{key}_out"]) for key in keys]
    inputs = [value("input_ids", INT64, [1, 3]), *more.pop("inputs", [])]
    given = [value(f"{key}_out", FLOAT, None) for key in keys]
    return model(nodes, tensors, inputs, [*given, *more.pop("outputs", [])], **more)


def test_equal_tensors_of_one_graph_become_one(tmp_path: Path) -> None:
    write(lookups("abc", placed(tmp_path / "in", dict.fromkeys("abc", table(100)))), tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert names(tmp_path / "out/model.onnx") == ["a"]


def test_equal_bytes_in_two_shapes_stay_two_views_of_one_place(tmp_path: Path) -> None:
    flat = table(100).reshape(-1)
    nodes = [
        helper.make_node("Gather", ["a", "input_ids"], ["x"]),
        helper.make_node("Gather", ["b", "input_ids"], ["y"]),
    ]
    given = [value("x", FLOAT, None), value("y", FLOAT, None)]
    tensors = placed(tmp_path / "in", {"a": table(100), "b": flat})
    write(model(nodes, tensors, [value("input_ids", INT64, [3])], given), tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert names(tmp_path / "out/model.onnx") == ["a", "b"]
    assert (tmp_path / "out" / DATA).stat().st_size == flat.nbytes


def test_an_initializer_that_a_caller_may_replace_is_not_merged(tmp_path: Path) -> None:
    arrays = dict.fromkeys("ab", table(100))
    replaceable = [value("b", FLOAT, [100, 10])]
    write(lookups("ab", placed(tmp_path / "in", arrays), inputs=replaceable), tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert names(tmp_path / "out/model.onnx") == ["a", "b"]
    assert (tmp_path / "out" / DATA).stat().st_size == 4000
    kept, replaced = outputs(tmp_path / "out/model.onnx", input_ids=IDS, b=np.zeros((100, 10), np.float32))
    assert kept.any() and not replaced.any()


def test_before_version_4_every_initializer_is_an_input_and_merged_all_the_same(tmp_path: Path) -> None:
    arrays = dict.fromkeys("ab", table(100))
    listed = [value(key, FLOAT, [100, 10]) for key in "ab"]
    made = lookups("ab", placed(tmp_path / "in", arrays), inputs=listed, ir_version=3, opset=8)
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert names(tmp_path / "out/model.onnx") == ["a"]
    assert [entry.name for entry in graph_of(tmp_path / "out/model.onnx").input] == ["input_ids", "a"]


@pytest.mark.parametrize("key", ["table", "turned"])
def test_a_weight_that_is_an_output_keeps_its_name(tmp_path: Path, key: str) -> None:
    made = decoder(placed(tmp_path / "in", weights()))
    made.graph.output.append(value(key, FLOAT, weights()[key].shape))
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    found = outputs(tmp_path / "out/model.onnx", input_ids=IDS)[1]
    assert np.array_equal(found, weights()[key])


def test_a_copy_that_is_an_output_is_still_given(tmp_path: Path) -> None:
    made = lookups(
        "ab", placed(tmp_path / "in", dict.fromkeys("ab", table(100))), outputs=[value("b", FLOAT, [100, 10])]
    )
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert np.array_equal(outputs(tmp_path / "out/model.onnx", input_ids=IDS)[2], table(100))


def branching(then: onnx.GraphProto, other: onnx.GraphProto, tensors: Sequence[TensorProto]) -> onnx.ModelProto:
    node = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    inputs = [value("flag", BOOL, []), value("input_ids", INT64, [1, 3])]
    return model([node], tensors, inputs, [value("y", FLOAT, None)])


def product(name: str, turned: str, tensors: Sequence[TensorProto]) -> onnx.GraphProto:
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], [f"{name}_x"]),
        helper.make_node("MatMul", [f"{name}_x", turned], [f"{name}_y"]),
    ]
    return helper.make_graph(nodes, name, [], [value(f"{name}_y", FLOAT, None)], list(tensors))


@pytest.mark.parametrize("where", ["branches", "outside"])
def test_copies_in_branches_are_stored_once(tmp_path: Path, where: str) -> None:
    made = weights()
    one, two = (inline("turned", made["turned"]), inline("turned2", made["turned"]))
    if where == "branches":
        branches = product("a", "turned", [one]), product("b", "turned2", [two])
        outer = [inline("table", made["table"])]
    else:
        branches = product("a", "turned", []), product("b", "turned2", [])
        outer = [inline("table", made["table"]), one, two]
    write(branching(*branches, outer), tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out" / DATA).stat().st_size == made["table"].nbytes
    for flag in (True, False):
        feed = {"flag": np.array(flag), "input_ids": IDS}
        before, after = (outputs(tmp_path / side / "model.onnx", **feed)[0] for side in ("in", "out"))
        assert np.abs(before - after).max() < 1e-5


def test_large_constants_are_merged_with_initializers(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["b"], value=inline("", table(100))),
        helper.make_node("Gather", ["a", "input_ids"], ["x"]),
        helper.make_node("Gather", ["b", "input_ids"], ["y"]),
    ]
    given = [value("x", FLOAT, None), value("y", FLOAT, None)]
    made = model(nodes, [inline("a", table(100))], [value("input_ids", INT64, [3])], given)
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert [node.op_type for node in graph_of(tmp_path / "out/model.onnx").node] == ["Gather", "Gather"]


def test_a_constant_in_a_function_shares_the_bytes(tmp_path: Path) -> None:
    body = [
        helper.make_node("Constant", [], ["w"], value=inline("", table(100))),
        helper.make_node("Gather", ["w", "i"], ["o"]),
    ]
    function = helper.make_function("mine", "Look", ["i"], ["o"], body, [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("Look", ["input_ids"], ["x"], domain="mine"),
        helper.make_node("Gather", ["a", "input_ids"], ["y"]),
    ]
    given = [value("x", FLOAT, None), value("y", FLOAT, None)]
    inputs = [value("input_ids", INT64, [3])]
    made = model(nodes, [inline("a", table(100))], inputs, given, functions=[function])
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out" / DATA).stat().st_size == 4000


USES = {
    "left of a product": [helper.make_node("MatMul", ["turned", "x"], ["y"])],
    "both sides": [
        helper.make_node("Transpose", ["turned"], ["t"]),
        helper.make_node("MatMul", ["turned", "t"], ["y"]),
    ],
    "gemm": [helper.make_node("Gemm", ["x2", "turned"], ["y"])],
    "gemm turned": [helper.make_node("Gemm", ["z2", "turned"], ["y"], transB=1, alpha=0.5)],
    "sum": [helper.make_node("ReduceSum", ["turned"], ["y"])],
    "transpose": [helper.make_node("Transpose", ["turned"], ["y"])],
    "two products": [
        helper.make_node("MatMul", ["x2", "turned"], ["y0"]),
        helper.make_node("MatMul", ["x3", "turned"], ["y1"]),
        helper.make_node("Add", ["y0", "y1"], ["y"]),
    ],
}


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_transposed_copy_keeps_its_result(tmp_path: Path, use: str, target: str) -> None:
    inputs = {
        "x": [ROWS, 3],
        "x2": [3, WIDTH],
        "x3": [2, 3, WIDTH],
        "z2": [3, ROWS],
        "input_ids": [3],
    }
    read = {name for node in USES[use] for name in node.input} | {"input_ids"}
    kinds = [value(name, INT64 if name == "input_ids" else FLOAT, inputs[name]) for name in inputs if name in read]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["g"]), *USES[use]]
    given = [value("y", FLOAT, None), value("g", FLOAT, None)]
    tensors = placed(tmp_path / "in", weights())
    write(model(nodes, tensors, kinds, given), tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out", target=target)
    assert (tmp_path / "out" / DATA).stat().st_size == weights()["table"].nbytes


def test_the_layout_that_a_lookup_needs_is_kept_whatever_comes_first(tmp_path: Path) -> None:
    made = weights()
    arrays = {"turned": made["turned"], "table": made["table"]}
    write(decoder(placed(tmp_path / "in", arrays)), tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    (kept,) = graph_of(tmp_path / "out/model.onnx").initializer
    assert list(kept.dims) == [ROWS, WIDTH]


def test_a_graph_that_holds_only_the_transpose_reads_the_other_graphs_table(tmp_path: Path) -> None:
    made = weights()
    write(
        lookups(["table"], placed(tmp_path / "in", {"table": made["table"]}, "e.onnx_data")), tmp_path / "in/embed.onnx"
    )
    head = helper.make_node("MatMul", ["h", "turned"], ["logits"])
    tensors = placed(tmp_path / "in", {"turned": made["turned"]}, "h.onnx_data")
    write(
        model([head], tensors, [value("h", FLOAT, [1, 2, WIDTH])], [value("logits", FLOAT, None)]),
        tmp_path / "in/head.onnx",
    )
    deduped(tmp_path / "in", tmp_path / "out")
    (kept,) = graph_of(tmp_path / "out/head.onnx").initializer
    assert (kept.name, list(kept.dims)) == ("turned_transposed", [ROWS, WIDTH])


def test_graphs_in_two_folders_have_a_data_file_each(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        arrays = dict.fromkeys("ab", table(100))
        write(lookups("ab", placed(tmp_path / "in" / folder, arrays)), tmp_path / "in" / folder / "model.onnx")
    report = dedupe(tmp_path / "in", tmp_path / "out")
    assert report.passed and (report.before.stored, report.after.stored) == (16000, 8000)
    assert [entry.wasted for entry in report.kept] == [4000], "what a runtime lets no graph refer to is told"


@pytest.mark.parametrize("name", QUANTIZERS)
def test_quantized_graphs_survive(tmp_path: Path, name: str) -> None:
    quantize, options = QUANTIZERS[name]
    (tmp_path / "in").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize(tied(tmp_path / "full.onnx"), tmp_path / "in" / "a.onnx", **options)
    (tmp_path / "in" / "b.onnx").write_bytes((tmp_path / "in" / "a.onnx").read_bytes())
    report = dedupe(tmp_path / "in", tmp_path / "out")
    assert report.passed and report.parity is not None and report.parity.bit_exact
    assert report.after.stored < 0.6 * report.before.stored


def test_a_transposed_copy_of_integers_is_turned_back_by_a_node(tmp_path: Path) -> None:
    integers = np.random.default_rng(0).integers(-99, 99, (ROWS, WIDTH)).astype(np.int8)
    nodes = [
        helper.make_node("Gather", ["q", "input_ids"], ["x"]),
        helper.make_node("MatMulInteger", ["x", "qt"], ["y"]),
    ]
    tensors = [inline("q", integers), inline("qt", np.ascontiguousarray(integers.T))]
    made = model(nodes, tensors, [value("input_ids", INT64, [3])], [value("y", TensorProto.INT32, None)])
    write(made, tmp_path / "in" / "model.onnx")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.merged[0].forms == ("Transpose",)
    assert report.parity is not None and report.parity.bit_exact


def test_sparse_initializers_are_carried(tmp_path: Path) -> None:
    dense = np.zeros((100, 10), np.float32)
    dense[7, 3] = 1.5
    values = inline("s", np.array([1.5], np.float32))
    sparse = helper.make_sparse_tensor(values, inline("s_indices", np.array([73])), [100, 10])
    made = lookups("ab", [inline(key, table(100)) for key in "ab"])
    made.graph.node.append(helper.make_node("Gather", ["s", "input_ids"], ["s_out"]))
    made.graph.output.append(value("s_out", FLOAT, None))
    made.graph.sparse_initializer.append(sparse)
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert np.array_equal(outputs(tmp_path / "out/model.onnx", input_ids=IDS)[2], dense[IDS])


def test_small_tensors_are_left_in_the_graph(tmp_path: Path) -> None:
    small = dict.fromkeys(("c", "d"), table(10))
    arrays = dict.fromkeys("ab", table(100)) | small
    write(lookups("abcd", [inline(*entry) for entry in arrays.items()]), tmp_path / "in" / "model.onnx")
    report = dedupe(tmp_path / "in", tmp_path / "out")
    assert report.passed and names(tmp_path / "out/model.onnx") == ["a", "c", "d"]
    assert report.kept == ()


def test_tensors_of_no_elements_and_small_external_ones_are_kept(tmp_path: Path) -> None:
    arrays: dict[str, Array] = dict.fromkeys("ab", table(100))
    arrays |= {"none": np.zeros((0, 4), np.float32), "few": np.arange(3, dtype=np.float32)}
    made = lookups("ab", placed(tmp_path / "in", arrays))
    few = external("", FLOAT, [2], 2 * table(100).nbytes + 4, 8)
    made.graph.node.append(helper.make_node("Constant", [], ["constant"], value=few))
    for name in ("none", "few", "constant"):
        made.graph.node.append(helper.make_node("Identity", [name], [f"{name}_out"]))
        made.graph.output.append(value(f"{name}_out", FLOAT, None))
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    found = outputs(tmp_path / "out/model.onnx", input_ids=IDS)
    assert found[2].shape == (0, 4) and found[3].tolist() == [0, 1, 2]
    assert found[4].tolist() == [1, 2]


def test_numbers_coded_one_by_one_are_written_plainly(tmp_path: Path) -> None:
    array = table(100).astype(np.float16)
    coded = [helper.make_tensor(key, KINDS["float16"], array.shape, array.ravel()) for key in "ab"]
    made = lookups("ab", coded)
    for output in made.graph.output:
        output.type.tensor_type.elem_type = KINDS["float16"]
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out" / DATA).read_bytes() == array.tobytes()
    assert (tmp_path / "out" / "model.onnx").stat().st_size < array.nbytes


def test_two_views_of_one_place_are_loaded_by_onnxruntime_and_counted_once(tmp_path: Path) -> None:
    """A 4-bit table that a lookup reads as `[rows, bytes]` and a product as `[rows, blocks, bytes of a block]`."""
    rows, width, block = 64, 32, 16
    random = np.random.default_rng(0)
    packed = random.integers(0, 256, (rows, width // 2)).astype(np.uint8)
    scales = random.random((rows, width // block)).astype(np.float32)
    (tmp_path / DATA).write_bytes(packed.tobytes() + scales.tobytes())
    tensors = [
        external("table", TensorProto.UINT8, packed.shape, 0, packed.nbytes),
        external("head", TensorProto.UINT8, [rows, width // block, block // 2], 0, packed.nbytes),
        external("scales", FLOAT, scales.shape, packed.nbytes, scales.nbytes),
        external("head_scales", FLOAT, [scales.size], packed.nbytes, scales.nbytes),
    ]
    options: dict[str, Any] = {"domain": "com.microsoft", "block_size": block, "bits": 4}
    nodes = [
        helper.make_node("GatherBlockQuantized", ["table", "input_ids", "scales"], ["x"], quantize_axis=1, **options),
        helper.make_node("MatMulNBits", ["x", "head", "head_scales"], ["logits"], K=width, N=rows, **options),
    ]
    inputs = [value("input_ids", INT64, ["batch_size", "sequence_length"])]
    path = write(
        model(nodes, tensors, inputs, [value("logits", FLOAT, None)], opset=21, ir_version=10), tmp_path / "m.onnx"
    )
    numbers = np.stack([packed & 15, packed >> 4], axis=-1).reshape(rows, width).astype(np.float32) - 8
    numbers *= scales.repeat(block, axis=1)
    ((logits),) = outputs(path, input_ids=IDS)
    assert np.abs(logits - numbers[IDS] @ numbers.T).max() < 1e-2 * np.abs(logits).max()
    counts = audit(path).bytes
    assert (counts.stored, counts.referenced, counts.ratio) == (packed.nbytes + scales.nbytes,) * 2 + (1.0,)
    assert not dedupe(path, tmp_path / "out", DedupeOptions()).changed
