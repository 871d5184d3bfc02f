"""Copies of exports with one fault each: a number of a weight, or an input that is misread under one condition."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from vocabsurgeon.onnx.files import read_onnx

PAST = "past_key_values.0.key"


@dataclass(frozen=True)
class When:
    """The size of `axis` of graph input `name` is `how` (`Equal`, `Greater`) `number`."""

    name: str
    axis: int
    how: str
    number: int


ALWAYS = When("input_ids", 0, "Greater", 0)
STEP, FIRST = When(PAST, 2, "Greater", 0), When(PAST, 2, "Equal", 0)
ONE, SEVERAL = When("input_ids", 1, "Equal", 1), When("input_ids", 1, "Greater", 1)
BATCHED = When("input_ids", 0, "Greater", 1)


def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy of an export that may be written to."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def overwrite(folder: Path, tensor: str, index: int, number: float = 2.5, graph: str = "model.onnx") -> None:
    """Put `number` (float32) at element `index` of `tensor` in the data file."""
    place = next(t for t in read_onnx(folder / graph).tensors if t.name == tensor)
    with open(folder / "model.onnx_data", "r+b") as file:
        file.seek(place.offset + 4 * index)
        file.write(np.float32(number).tobytes())


def misread(graph: Path, name: str, how: str, when: Sequence[When] = (ALWAYS,)) -> None:
    """Let every reader of input `name` see `how(name, 1)` (`Add`, `Max`, `BitwiseXor`) while all of `when` holds."""
    model = onnx.load(graph, load_external_data=False)
    kind = next(value for value in model.graph.input if value.name == name).type.tensor_type.elem_type
    nodes = _flag(when, kind)
    nodes.append(helper.make_node(how, [name, "fault"], [f"{name} misread"]))
    _read_instead(model.graph, name, f"{name} misread")
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    onnx.save(model, graph)


def miswritten(graph: Path, name: str) -> None:
    """Let output `name` be 1 more than the graph computes; inside, it is right."""
    model = onnx.load(graph, load_external_data=False)
    right = f"{name} right"
    for node in model.graph.node:
        node.output[:] = [right if output == name else output for output in node.output]
    _read_instead(model.graph, name, right)
    kind = next(value for value in model.graph.output if value.name == name).type.tensor_type.elem_type
    model.graph.node.append(helper.make_node("Constant", [], ["fault"], value=helper.make_tensor("", kind, [1], [1])))
    model.graph.node.append(helper.make_node("Add", [right, "fault"], [name]))
    onnx.save(model, graph)


def shortened(graph: Path, name: str, when: Sequence[When] = (ALWAYS,)) -> None:
    """Let output `name` lack its last position (axis 1) while all of `when` holds."""
    model = onnx.load(graph, load_external_data=False)
    whole = f"{name} whole"
    for node in model.graph.node:
        node.output[:] = [whole if output == name else output for output in node.output]
    _read_instead(model.graph, name, whole)
    numbers = {"no position": 0, "the axis": 1}
    for held, number in numbers.items():
        constant = helper.make_tensor("", TensorProto.INT64, [1], [number])
        model.graph.node.append(helper.make_node("Constant", [], [held], value=constant))
    model.graph.node.extend(_flag(when, TensorProto.INT64))
    model.graph.node.append(helper.make_node("Shape", [whole], ["length"], start=1, end=2))
    model.graph.node.append(helper.make_node("Sub", ["length", "fault"], ["end"]))
    model.graph.node.append(helper.make_node("Slice", [whole, "no position", "end", "the axis"], [name]))
    onnx.save(model, graph)


def _flag(when: Sequence[When], kind: int) -> list[onnx.NodeProto]:
    """Nodes that make `fault [1]`: 1 while all of `when` holds, else 0."""
    nodes = []
    for number, condition in enumerate(when):
        size, limit, holds = (f"{part} {number}" for part in ("size", "limit", "holds"))
        nodes += [
            helper.make_node("Shape", [condition.name], [size], start=condition.axis, end=condition.axis + 1),
            helper.make_node(
                "Constant", [], [limit], value=helper.make_tensor("", TensorProto.INT64, [1], [condition.number])
            ),
            helper.make_node(condition.how, [size, limit], [f"is {number}"]),
            helper.make_node(
                "And" if number else "Identity", [f"is {number}", f"holds {number - 1}"][: 1 + bool(number)], [holds]
            ),
        ]
    return [*nodes, helper.make_node("Cast", [f"holds {len(when) - 1}"], ["fault"], to=kind)]


def _read_instead(graph: onnx.GraphProto, name: str, other: str) -> None:
    for node in graph.node:
        node.input[:] = [other if given == name else given for given in node.input]
