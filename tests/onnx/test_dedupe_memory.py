"""A deduplicated export holds its token table once in memory too: `audit --runtime` with the presets beside it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.runner import vocabsurgeon
from tests.onnx import lookup_graphs
from tests.onnx.exports import decoder, model, placed, value, write
from tests.onnx.handmade import inline, table
from tests.onnx.test_dedupe import deduped, operators
from vocabsurgeon.onnx.dedupe.operate import dedupe
from vocabsurgeon.onnx.dedupe.options import DedupeOptions
from vocabsurgeon.onnx.presets import FOLD_LIMIT, MEMORY_FIRST, PRESETS, SPEED_FIRST, read_presets

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells memory by kind")
TABLE = table(lookup_graphs.ROWS, lookup_graphs.WIDTH)


def turned_copy(folder: Path) -> Path:
    """A table of 8 MB and its transpose, as optimum leaves a tied head."""
    arrays = {"table": TABLE, "turned": np.ascontiguousarray(TABLE.T)}
    return write(decoder(placed(folder, arrays)), folder / "model.onnx")


def turned_in_the_graph(folder: Path) -> Path:
    """One table, which the graph turns: nothing is stored twice, and a session holds it twice."""
    return lookup_graphs.write(folder, "transposed")


def turned_to_be_looked_up(folder: Path) -> Path:
    """A table that lies as the head multiplies by it, as onnxruntime-genai's builder writes a tied one."""
    nodes = [
        helper.make_node("Transpose", ["table"], ["upright"]),
        helper.make_node("Gather", ["upright", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "table"], ["logits"]),
    ]
    tensors = placed(folder, {"table": np.ascontiguousarray(TABLE.T)})
    inputs = [value("input_ids", onnx.TensorProto.INT64, ["batch_size", "sequence_length"])]
    return write(model(nodes, tensors, inputs, [value("logits", 1, None)]), folder / "model.onnx")


def quantized(folder: Path) -> Path:
    """A table of 4-bit numbers that is reshaped to be looked up, as the same builder writes it."""
    rows, width, block = 4096, 64, 32
    packed = np.random.default_rng(0).integers(0, 256, (rows, width // block, block // 2)).astype(np.uint8)
    scales = table(rows, width // block)
    options: dict[str, Any] = {"domain": "com.microsoft", "block_size": block, "bits": 4}
    lookup = ["flat", "input_ids", "scales"]
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=inline("", np.array([rows, -1]))),
        helper.make_node("Reshape", ["head", "shape"], ["flat"]),
        helper.make_node("GatherBlockQuantized", lookup, ["x"], quantize_axis=1, **options),
        helper.make_node("MatMulNBits", ["x", "head", "scales"], ["logits"], K=width, N=rows, **options),
    ]
    tensors = placed(folder, {"head": packed, "scales": scales})
    inputs = [value("input_ids", onnx.TensorProto.INT64, ["batch_size", "sequence_length"])]
    made = model(nodes, tensors, inputs, [value("logits", 1, None)], opset=21, ir_version=10)
    return write(made, folder / "model.onnx")


def memory(folder: Path) -> dict[str, Any]:
    runtime: dict[str, Any] = vocabsurgeon("audit", folder, "--runtime", "--json").document["runtime"]
    return runtime


@linux
@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("make", [turned_copy, turned_in_the_graph, turned_to_be_looked_up])
def test_memory_first_holds_one_table(tmp_path: Path, make: Any, target: str) -> None:
    make(tmp_path / "in")
    deduped(tmp_path / "in", tmp_path / "out", target=target)
    entries = {preset.name: preset.entries for preset in read_presets(tmp_path / "out") or ()}
    assert entries == {MEMORY_FIRST: {FOLD_LIMIT: str(TABLE.nbytes - 1)}, SPEED_FIRST: {}}, "other weights are packed"
    runtime = memory(tmp_path / "out")
    assert (runtime["table_copies"], runtime["presets"][MEMORY_FIRST]["table_copies"]) == (2, 1)
    assert runtime["presets"][MEMORY_FIRST]["resident_anonymous"] < TABLE.nbytes // 2


def test_a_table_that_the_graph_turns_is_read_as_it_is(tmp_path: Path) -> None:
    turned_in_the_graph(tmp_path / "in")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.unfolded == (("table", ("Gemm(transB=1)",)),)
    assert "Transpose" not in operators(tmp_path / "out" / "model.onnx")
    assert report.summary == "8.39 MB: nothing is stored twice; a session can hold the token table once too"
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "again")
    assert "in memory   table → Gemm(transB=1), once" in ran.stdout
    assert not deduped(tmp_path / "out", tmp_path / "twice").changed


@pytest.mark.parametrize("why", ["float16", "not looked up", "something else reads it"])
def test_a_transpose_that_costs_nothing_or_is_needed_stays(tmp_path: Path, why: str) -> None:
    path = turned_in_the_graph(tmp_path / "in")
    made = onnx.load(path, load_external_data=False)
    nodes = {node.op_type: node for node in made.graph.node}
    if why == "float16":
        made.graph.initializer[0].data_type = made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        (tmp_path / "in" / "model.onnx_data").write_bytes(TABLE.astype(np.float16).tobytes())
        made.graph.initializer[0].external_data[2].value = str(TABLE.nbytes // 2)
    if why == "not looked up":
        made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = lookup_graphs.WIDTH
        nodes["MatMul"].input[0] = "input_ids"
        made.graph.node.remove(nodes["Gather"])
    if why == "something else reads it":
        made.graph.output.add(name="turned").type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    write(made, path)
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert ("Transpose" in operators(tmp_path / "out" / "model.onnx")) and report.merged == ()
    assert report.changed == (why == "something else reads it")


def test_a_table_that_is_turned_to_be_looked_up_gives_columns(tmp_path: Path) -> None:
    turned_to_be_looked_up(tmp_path / "in")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.unfolded == (("table", ("Gather(axis=1)",)),)
    assert operators(tmp_path / "out/model.onnx") == ["Constant", "Reshape", "Gather", "Transpose", "MatMul"]
    assert report.parity is not None and report.parity.bit_exact
    feeds = report.parity.values / report.parity.outputs
    assert feeds > lookup_graphs.ROWS, "ids of the whole table were looked up, not zeros and ones"
    assert not deduped(tmp_path / "out", tmp_path / "twice").changed


@pytest.mark.parametrize("where", ["a copy outside", "turned outside", "turned in the branch"])
def test_products_in_branches_read_the_table_too(tmp_path: Path, where: str) -> None:
    """As in the merged decoders of optimum."""
    turn = helper.make_node("Transpose", ["table"], ["turned"])

    def branch(name: str) -> onnx.GraphProto:
        nodes = [turn] if where == "turned in the branch" else []
        nodes.append(helper.make_node("MatMul", ["x", "turned"], [name]))
        return helper.make_graph(nodes, name, [], [value(name, 1, None)])

    arrays = {"table": TABLE}
    if where == "a copy outside":
        arrays["turned"] = np.ascontiguousarray(TABLE.T)
    nodes = [
        *([turn] if where == "turned outside" else []),
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("If", ["flag"], ["logits"], then_branch=branch("a"), else_branch=branch("b")),
    ]
    inputs = [value("input_ids", onnx.TensorProto.INT64, [1, "s"]), value("flag", onnx.TensorProto.BOOL, [])]
    made = model(nodes, placed(tmp_path / "in", arrays), inputs, [value("logits", 1, None)])
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    graph = onnx.load(tmp_path / "out/model.onnx", load_external_data=False).graph
    assert [node.op_type for node in graph.node] == ["Constant", "Reshape", "Gather", "If"]
    inner = [{node.op_type for node in attribute.g.node} for attribute in graph.node[3].attribute]
    assert all("Gemm" in kinds and not {"MatMul", "Transpose"} & kinds for kinds in inner)
    assert len(graph.initializer) == 1


def test_a_quantized_table_in_two_shapes_has_two_views_of_its_bytes(tmp_path: Path) -> None:
    quantized(tmp_path / "in")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.unfolded == (("head", ("a second view of its bytes",)),)
    made = onnx.load(tmp_path / "out/model.onnx", load_external_data=False)
    places = {entry.name: {e.key: e.value for e in entry.external_data} for entry in made.graph.initializer}
    shapes = {entry.name: list(entry.dims) for entry in made.graph.initializer}
    assert places["flat"] == places["head"] and (shapes["flat"], shapes["head"]) == ([4096, 32], [4096, 2, 16])
    assert report.parity is not None and report.parity.bit_exact
    assert report.after.stored == report.before.stored


@pytest.mark.parametrize("shape", [[0, 32], [-1, -1], [7, -1], [4096]])
def test_a_reshape_that_is_not_plain_stays(tmp_path: Path, shape: list[int]) -> None:
    path = quantized(tmp_path / "in")
    made = onnx.load(path, load_external_data=False)
    made.graph.node[0].attribute[0].t.CopyFrom(inline("", np.array(shape)))
    write(made, path)
    assert not dedupe(path, tmp_path / "out", DedupeOptions(dry_run=True)).changed


def test_a_form_that_does_not_run_leaves_the_export_as_it_was(tmp_path: Path) -> None:
    path = turned_in_the_graph(tmp_path / "in")
    made = onnx.load(path, load_external_data=False)
    made.graph.node[0].domain = "no.such.domain"
    made.opset_import.add(domain="no.such.domain", version=1)
    write(made, path)
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json")
    assert (ran.code, ran.document["changed"], ran.document["unfolded"]) == (0, False, [])
    assert ran.document["parity_not_checked"].startswith("left as it was, as a form with one table in memory failed")
    assert (tmp_path / "out" / "model.onnx").read_bytes() == path.read_bytes()


def test_a_weight_that_is_not_looked_up_is_read_directly(tmp_path: Path) -> None:
    """No `Reshape`: a session may pack what only products read, and keeps nothing else of it."""
    arrays = {"table": TABLE, "turned": np.ascontiguousarray(TABLE.T)}
    made = decoder(placed(tmp_path / "in", arrays))
    made.graph.node[0].CopyFrom(helper.make_node("MatMul", ["x0", "table"], ["x"]))
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("x0", 1, [1, lookup_graphs.ROWS]))
    write(made, tmp_path / "in" / "model.onnx")
    deduped(tmp_path / "in", tmp_path / "out")
    assert operators(tmp_path / "out" / "model.onnx").count("Reshape") == 2


def test_an_untouched_export_keeps_its_own_options(tmp_path: Path) -> None:
    """Where there is nothing to gain, no file is added and none is changed."""
    lookup_graphs.write(tmp_path / "in", "view")
    (tmp_path / "in" / PRESETS).write_text("{}")
    assert not deduped(tmp_path / "in", tmp_path / "out").changed
    assert (tmp_path / "out" / PRESETS).read_text() == "{}"
