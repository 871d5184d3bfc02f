"""The graph of an ONNX file as names: nodes, and tensors with where their bytes are said to lie. No weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.wire import Field, WireFile

MAX_DEPTH = 16
"""How deep graphs may nest (the branches of an If, the body of a Loop)."""

_MODEL = {7: "graph", 8: "opset_import", 14: "metadata", 25: "function"}
_GRAPH = {1: "node", 5: "initializer", 11: "input", 12: "output", 15: "sparse"}
_NODE = {1: "input", 2: "output", 4: "op_type", 5: "attribute", 7: "domain"}
_ATTRIBUTE = {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse"}
_NAME, _INTEGER = 1, 3
_TENSOR = {1: "dims", 2: "type", 8: "name", 9: "raw", 13: "external", 14: "location"}
_TYPED = {4: 4, 10: 8}
"""`float_data` and `double_data`: packed, they lie in the file as raw data would. Field number → item size."""
_CODED = (5, 6, 7, 11)
"""`int32_data`, `string_data`, `int64_data`, `uint64_data`: one variable-length number or string after the other."""


@dataclass
class TensorEntry:
    """A tensor as the file states it. `spans`: where inline bytes lie, None where they are coded number by number."""

    name: str = ""
    type_number: int = 0
    dims: list[int] = field(default_factory=list)
    external: dict[str, str] = field(default_factory=dict)
    is_external: bool = False
    spans: list[tuple[int, int]] | None = field(default_factory=list)
    whole: tuple[int, int] = (0, 0)
    """Where the whole TensorProto lies."""
    role: str = "initializer"
    """`initializer`, or `constant` for a tensor held by a node."""


@dataclass(frozen=True)
class NodeEntry:
    """One node: its operator and the names it reads and gives."""

    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    integers: Mapping[str, int] = field(default_factory=dict)
    """Attributes that are one number."""


@dataclass
class GraphEntries:
    """Everything of a model that names a tensor. Names of nested graphs live in one flat list."""

    tensors: list[TensorEntry] = field(default_factory=list)
    nodes: list[NodeEntry] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    opsets: dict[str, int] = field(default_factory=dict)

    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """Value name → operators that read it, in graph order."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            for name in node.inputs:
                found.setdefault(name, []).append(node.op_type)
        return {name: tuple(ops) for name, ops in found.items()}


def read_graph(path: Path) -> GraphEntries:
    """Read the file at `path`. Raises `OnnxError` where it is unreadable, no ONNX model, or nested beyond reason."""
    entries = GraphEntries()
    with WireFile(path) as file:
        has_graph = False
        for item in file.fields(0, file.size):
            kind = _MODEL.get(item.number)
            if kind in ("graph", "function") and item.value is None:
                has_graph = has_graph or kind == "graph"
                _read_graph(file, item, entries, depth=0, is_function=kind == "function")
            elif kind == "opset_import":
                _read_opset(file, item, entries)
    if not has_graph:
        raise OnnxError("is not an ONNX model: it has no graph", where=path)
    return entries


def _read_graph(file: WireFile, at: Field, entries: GraphEntries, depth: int, is_function: bool = False) -> None:
    if depth > MAX_DEPTH:
        raise OnnxError(f"has graphs nested more than {MAX_DEPTH} deep", where=file.path)
    kinds = {7: "node"} if is_function else _GRAPH
    for item in file.fields(at.start, at.end):
        kind = kinds.get(item.number)
        if kind == "node":
            _read_node(file, item, entries, depth)
        elif kind == "initializer":
            entries.tensors.append(_read_tensor(file, item))
        elif kind == "sparse":
            _read_sparse(file, item, entries)
        elif kind in ("input", "output") and depth == 0:
            (entries.inputs if kind == "input" else entries.outputs).append(_first_text(file, item, 1))


def _read_node(file: WireFile, at: Field, entries: GraphEntries, depth: int) -> None:
    texts: dict[str, list[str]] = {"input": [], "output": [], "op_type": [], "domain": []}
    held: list[TensorEntry] = []
    integers: dict[str, int] = {}
    for item in file.fields(at.start, at.end):
        kind = _NODE.get(item.number)
        if kind == "attribute":
            integers.update(_read_integer(file, item))
            held.extend(_read_attribute(file, item, entries, depth))
        elif kind is not None:
            texts[kind].append(file.text(item))
    op_type = next(iter(texts["op_type"]), "")
    for tensor in held:
        tensor.role = "constant"
        tensor.name = next((name for name in texts["output"] if name), tensor.name)
    entries.tensors.extend(held)
    inputs, outputs = tuple(texts["input"]), tuple(texts["output"])
    entries.nodes.append(NodeEntry(op_type, "".join(texts["domain"]), inputs, outputs, integers))


def _read_integer(file: WireFile, at: Field) -> dict[str, int]:
    """The attribute's name and number, where it is one number."""
    fields = {item.number: item for item in file.fields(at.start, at.end) if item.number in (_NAME, _INTEGER)}
    if fields.keys() != {_NAME, _INTEGER} or fields[_INTEGER].value is None:
        return {}
    return {file.text(fields[_NAME]): file.integers(fields[_INTEGER])[0]}


def _read_attribute(file: WireFile, at: Field, entries: GraphEntries, depth: int) -> Iterator[TensorEntry]:
    for item in file.fields(at.start, at.end):
        kind = _ATTRIBUTE.get(item.number)
        if kind == "tensor":
            yield _read_tensor(file, item)
        elif kind == "graph":
            _read_graph(file, item, entries, depth + 1)
        elif kind == "sparse":
            _read_sparse(file, item, entries)


def _read_sparse(file: WireFile, at: Field, entries: GraphEntries) -> None:
    entries.tensors.extend(_read_tensor(file, item) for item in file.fields(at.start, at.end) if item.number in (1, 2))


def _read_tensor(file: WireFile, at: Field) -> TensorEntry:
    tensor = TensorEntry(whole=(at.start, at.end))
    for item in file.fields(at.start, at.end):
        kind = _TENSOR.get(item.number)
        if kind == "dims":
            tensor.dims.extend(file.integers(item))
        elif kind == "type":
            tensor.type_number = item.value or 0
        elif kind == "name":
            tensor.name = file.text(item)
        elif kind == "external":
            tensor.external[_first_text(file, item, 1)] = _first_text(file, item, 2)
        elif kind == "location":
            tensor.is_external = item.value == 1
        elif kind == "raw" or item.number in _TYPED:
            _add_span(tensor, item)
        elif item.number in _CODED:
            tensor.spans = None
    return tensor


def _add_span(tensor: TensorEntry, item: Field) -> None:
    if tensor.spans is not None and item.value is None:
        tensor.spans.append((item.start, item.end))


def _read_opset(file: WireFile, at: Field, entries: GraphEntries) -> None:
    domain, version = "", 0
    for item in file.fields(at.start, at.end):
        if item.number == 1:
            domain = file.text(item)
        elif item.number == 2:
            version = item.value or 0
    entries.opsets[domain] = version


def _first_text(file: WireFile, at: Field, number: int) -> str:
    return next((file.text(item) for item in file.fields(at.start, at.end) if item.number == number), "")
