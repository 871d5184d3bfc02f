"""One content at two precisions: rounded and quantized twins are found in what quantizers write; lookalikes are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx.exports import ROWS, WIDTH, decoder, model, value, weights, write
from tests.onnx.handmade import Array, inline, save_external, table
from vocabsurgeon.onnx import twins as module
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.duplicates import Duplicate

BIG = (96, 64)


def found(path: Path) -> list[tuple[list[str], str, int]]:
    """The twins at `path`; exact copies are no concern here."""
    duplicates: tuple[Duplicate, ...] = audit(path).duplicates
    return [([t.name for t in d.tensors], d.relation, d.wasted) for d in duplicates if not d.exact]


def random(shape: tuple[int, int] = BIG, seed: int = 0) -> Array:
    return table(*shape, seed)


@pytest.mark.parametrize("narrow", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
def test_a_rounded_copy_is_found(tmp_path: Path, narrow: Any, turned: bool) -> None:
    wide = random()
    small = (wide.T.copy() if turned else wide).astype(narrow)
    save_external(tmp_path, {"half": small, "full": wide, "other": random(seed=1)})
    assert found(tmp_path) == [(["full", "half"], "cast", small.nbytes)]


def test_a_rounded_copy_of_a_tensor_that_is_no_matrix_is_found(tmp_path: Path) -> None:
    wide = random().reshape(4, 24, 64)
    save_external(tmp_path, {"full": wide, "half": wide.astype(np.float16)})
    assert found(tmp_path) == [(["full", "half"], "cast", wide.nbytes // 2)]


def test_one_number_rounded_otherwise_is_no_copy(tmp_path: Path) -> None:
    half = random().astype(np.float16)
    for place in range(0, half.size, 611):
        other = half.copy()
        other.view(np.uint16).ravel()[place] ^= 1
        save_external(tmp_path / str(place), {"full": random(), "half": other})
        assert found(tmp_path / str(place)) == []


def test_numbers_that_round_to_infinity_and_nan_are_compared(tmp_path: Path) -> None:
    wide = random()
    wide[0, 0], wide[1, 1] = 1e9, np.nan
    with np.errstate(over="ignore"):
        save_external(tmp_path, {"full": wide, "half": wide.astype(np.float16)})
    assert [relation for _, relation, _ in found(tmp_path)] == ["cast"]


def quantized(array: Array, axis: int | None, signed: bool) -> tuple[Array, Array, Array]:
    """The integers, scales and zero points of a plain quantizer over the whole array or along `axis`."""
    others = None if axis is None else 1 - axis
    low = np.minimum(array.min(axis=others, keepdims=True), 0)
    high = np.maximum(array.max(axis=others, keepdims=True), 0)
    bottom, top = (-128, 127) if signed else (0, 255)
    scale = ((high - low) / 255).astype(np.float32)
    zero = np.clip(np.round(bottom - low / scale), bottom, top)
    integers = np.clip(np.round(array / scale) + zero, bottom, top)
    kind = np.int8 if signed else np.uint8
    return integers.astype(kind), scale.ravel() if axis is not None else scale.reshape(()), zero.astype(kind).ravel()


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
def test_a_dequantized_twin_is_found_by_its_scales(
    tmp_path: Path, signed: bool, axis: int | None, turned: bool
) -> None:
    array = random()
    integers, scale, zero = quantized(array, axis, signed)
    zero = zero.reshape(scale.shape)
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1 if axis is None else axis),
        helper.make_node("Identity", ["w"], ["z"]),
    ]
    tensors = [inline("q", integers), inline("scale", scale), inline("zero", zero)]
    tensors.append(inline("w", array.T.copy() if turned else array))
    made = model(nodes, tensors, [], [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)])
    assert found(write(made, tmp_path / "m.onnx")) == [(["w", "q"], "quantized", integers.nbytes)]
    off = array.copy()
    off[50, 40] += 3 * float(np.max(scale))
    tensors[-1] = inline("w", off.T.copy() if turned else off)
    made = model(nodes, tensors, [], [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)])
    assert found(write(made, tmp_path / "n.onnx")) == []


def untied(path: Path) -> Path:
    """A decoder whose head is no copy of its table."""
    arrays = weights() | {"turned": table(ROWS, WIDTH, 1).T.copy()}
    return write(decoder([inline(name, array) for name, array in arrays.items()]), path)


def tied(path: Path) -> Path:
    """A decoder whose head is its table transposed."""
    return write(decoder([inline(name, array) for name, array in weights().items()]), path)


def dynamic(source: Path, out: Path, **options: Any) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_dynamic(source, out, weight_type=QuantType.QInt8, **options)


def blocks(source: Path, out: Path, **options: Any) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=16, **options)
    quantizer.process()
    quantizer.model.save_model_to_file(str(out), use_external_data_format=False)


QUANTIZERS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "dynamic": (dynamic, {}),
    "dynamic per channel": (dynamic, {"per_channel": True}),
    "dynamic head only": (dynamic, {"op_types_to_quantize": ["MatMul"]}),
    "blocks symmetric": (blocks, {"is_symmetric": True}),
    "blocks asymmetric": (blocks, {"is_symmetric": False}),
    "blocks of 8 bits": (blocks, {"is_symmetric": False, "bits": 8}),
    "blocks, table too": (blocks, {"is_symmetric": True, "op_types_to_quantize": ("MatMul", "Gather")}),
}


@pytest.mark.parametrize("name", QUANTIZERS)
def test_a_quantized_export_beside_the_full_one_is_found(tmp_path: Path, name: str) -> None:
    quantize, options = QUANTIZERS[name]
    source = untied(tmp_path / "model.onnx")
    quantize(source, tmp_path / "small.onnx", **options)
    pairs = {frozenset(name.partition(":")[2] for name in names[:1]) for names, _, _ in found(tmp_path)}
    both = name in ("dynamic", "dynamic per channel", "blocks, table too")
    assert pairs == ({frozenset({"table"}), frozenset({"turned"})} if both else {frozenset({"turned"})})
    assert all(relation == "quantized" for _, relation, _ in found(tmp_path))


@pytest.mark.parametrize("name", ["dynamic head only", "blocks symmetric"])
def test_a_quantized_head_beside_its_table_in_one_graph_is_found(tmp_path: Path, name: str) -> None:
    quantize, options = QUANTIZERS[name]
    (tmp_path / "out").mkdir()
    quantize(tied(tmp_path / "in.onnx"), tmp_path / "out" / "model.onnx", **options)
    ((names, relation, wasted),) = found(tmp_path / "out")
    assert (names[0], relation) == ("table", "quantized") and 0 < wasted <= ROWS * WIDTH
    document = audit(tmp_path / "out").to_dict()
    assert "is a quantized copy of the token table table" in document["summary"]
    assert document["bytes"]["ratio"] == 1.0 and document["passed"]


def test_two_quantized_forms_of_a_table_that_is_gone_are_twins(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    dynamic(tied(tmp_path / "in.onnx"), tmp_path / "table.onnx", op_types_to_quantize=["Gather"])
    blocks(tmp_path / "table.onnx", tmp_path / "out" / "model.onnx", is_symmetric=True)
    ((names, relation, _),) = found(tmp_path / "out")
    assert relation == "quantized" and len(names) == 2 and "table" in names[0]


def test_unrelated_quantized_tables_are_no_twins(tmp_path: Path) -> None:
    untied(tmp_path / "one.onnx")
    arrays = {"table": table(ROWS, WIDTH, 7), "turned": table(ROWS, WIDTH, 8).T.copy()}
    other = write(decoder([inline(name, array) for name, array in arrays.items()]), tmp_path / "elsewhere" / "m.onnx")
    blocks(other, tmp_path / "small.onnx", **QUANTIZERS["blocks, table too"][1])
    other.unlink()
    assert found(tmp_path) == []


def test_comparison_in_small_blocks_gives_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = untied(tmp_path / "model.onnx")
    blocks(source, tmp_path / "small.onnx", **QUANTIZERS["blocks, table too"][1])
    whole = found(tmp_path)
    monkeypatch.setattr(module, "BLOCK_BYTES", 4096)
    assert found(tmp_path) == whole and len(whole) == 2


def test_a_product_of_two_known_scales_takes_the_weights_own(tmp_path: Path) -> None:
    array = random((64, 96))
    integers, scale, zero = quantized(array, None, True)
    nodes = [
        helper.make_node("MatMulInteger", ["a", "w", "a_zero", "w_zero"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["a_scale", "w_scale"], ["scale"]),
        helper.make_node("Mul", ["cast", "scale"], ["y"]),
        helper.make_node("Identity", ["full"], ["z"]),
    ]
    tensors = [
        inline("w", integers),
        inline("w_scale", scale),
        inline("w_zero", zero.reshape(())),
        inline("full", array),
    ]
    tensors += [inline("a_scale", np.float32(9.0).reshape(())), inline("a_zero", np.int8(0).reshape(()))]
    given = [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)]
    made = model(nodes, tensors, [value("a", TensorProto.INT8, [2, 64])], given)
    assert found(write(made, tmp_path / "m.onnx")) == [(["full", "w"], "quantized", integers.nbytes)]


def test_scales_that_are_no_numbers_are_no_twins(tmp_path: Path) -> None:
    integers, _, zero = quantized(random(), 0, True)
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=0),
        helper.make_node("Identity", ["w"], ["z"]),
    ]
    for number in (np.nan, np.inf, 0.0, 3e38):
        scale = np.full(len(integers), number, np.float32)
        tensors = [inline("q", integers), inline("scale", scale), inline("zero", zero), inline("w", random())]
        given = [value("y", TensorProto.FLOAT, None), value("z", TensorProto.FLOAT, None)]
        path = write(model(nodes, tensors, [], given), tmp_path / f"{number}" / "m.onnx")
        assert found(path) == []


def test_an_exact_copy_of_a_twin_is_told_once(tmp_path: Path) -> None:
    half = random().astype(np.float16)
    save_external(tmp_path, {"full": random(), "half": half, "again": half})
    assert found(tmp_path) == [(["full", "half"], "cast", half.nbytes)]
    assert [(d.relation, d.wasted) for d in audit(tmp_path).duplicates if d.exact] == [("equal", half.nbytes)]


@pytest.mark.parametrize("damage", ["scales", "zeros", "integers", "attributes"])
def test_contradicting_sizes_are_no_twins_and_no_bug(tmp_path: Path, damage: str) -> None:
    source = untied(tmp_path / "model.onnx")
    quantize, options = QUANTIZERS["blocks asymmetric"]
    quantize(source, tmp_path / "small.onnx", **options)
    made = onnx.load(tmp_path / "small.onnx")
    node = next(node for node in made.graph.node if node.op_type == "MatMulNBits")
    by_name = {tensor.name: tensor for tensor in made.graph.initializer}
    if damage == "attributes":
        for attribute in node.attribute:
            attribute.i = {"N": 1 << 40, "K": -3, "bits": 4, "block_size": 16}.get(attribute.name, attribute.i)
    else:
        name = node.input[{"integers": 1, "scales": 2, "zeros": 3}[damage]]
        by_name[name].CopyFrom(inline(name, np.zeros(3 if damage == "zeros" else 4096, np.uint8)))
    write(made, tmp_path / "small.onnx")
    assert found(tmp_path) == []


def test_steps_that_are_wider_than_every_number_tell_nothing(tmp_path: Path) -> None:
    held = {"full": random(), "q": np.zeros(BIG, np.int8), "scale": np.array(10, np.float32)}
    nodes = [
        helper.make_node("Identity", ["full"], ["x"]),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["y"]),
    ]
    given = [value(name, TensorProto.FLOAT, None) for name in "xy"]
    made = model(nodes, [inline(name, array) for name, array in held.items()], [], given)
    assert found(write(made, tmp_path / "m.onnx")) == []
