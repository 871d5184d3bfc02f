"""One graph of a model, nested or not, as a place where names live: who defines, reads and may rename a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


@dataclass
class Scope:
    """`graph` with what a rewrite must know: the opset, the target, and every name of the model (`taken`)."""

    graph: onnx.GraphProto
    opset: int
    target: str
    taken: set[str]
    inputs_are_overridable: bool
    views: dict[str, str] = field(default_factory=dict)
    """Table → the value that products read it as."""
    outer: Scope | None = None
    """The scope that this one was reached from."""

    def overridable(self) -> set[str]:
        """Initializers that are graph inputs as well: who runs the graph may replace them."""
        return {value.name for value in self.graph.input} if self.inputs_are_overridable else set()

    def outputs(self) -> set[str]:
        """Names that must stay, as the graph gives them."""
        return {value.name for value in self.graph.output}

    def new_name(self, wanted: str) -> str:
        """`wanted`, with a number behind it where the model has that name."""
        name, number = wanted, 1
        while name in self.taken:
            name, number = f"{wanted}_{number}", number + 1
        self.taken.add(name)
        return name

    def reaching(self, *names: str) -> Iterator[Scope]:
        """This scope and those of nested graphs in which `names` mean what they mean here."""
        held = [inner for node in self.graph.node for inner in _inner(node)]  # before the caller changes the nodes
        yield self
        for inner in held:
            if _defined(inner).isdisjoint(names):
                nested = Scope(inner, self.opset, self.target, self.taken, self.inputs_are_overridable, outer=self)
                yield from nested.reaching(*names)

    def home(self, name: str) -> Scope:
        """The scope around this one that defines `name`."""
        return self if self.outer is None or name in _defined(self.graph) else self.outer.home(name)

    def rename(self, names: Mapping[str, str]) -> None:
        """Let every reader of a key of `names`, in nested graphs too, read the value's name instead."""
        _rename(self.graph, names)
        for note in self.graph.quantization_annotation:
            for entry in note.quant_parameter_tensor_names:
                entry.value = names.get(entry.value, entry.value)

    def is_read(self, name: str) -> bool:
        """Whether a node, a nested graph or an output needs `name`."""
        return name in self.outputs() or any(True for _ in _readers(self.graph, name))

    def readers(self, name: str) -> list[str]:
        """Operators that read `name`, in nested graphs too."""
        return list(_readers(self.graph, name))

    def drop(self, names: set[str]) -> None:
        """Remove the initializers `names`, and inputs and shapes of the same names."""
        for values in (self.graph.initializer, self.graph.input, self.graph.value_info):
            kept = [value for value in values if value.name not in names]
            if len(kept) < len(values):
                del values[:]
                values.extend(kept)

    def replace(self, node: onnx.NodeProto, nodes: list[onnx.NodeProto]) -> None:
        """Put `nodes` where `node` is."""
        at = next(index for index, other in enumerate(self.graph.node) if other.output[:1] == node.output[:1])
        del self.graph.node[at]
        for offset, new in enumerate(nodes):
            self.graph.node.insert(at + offset, new)


def scopes(model: onnx.ModelProto, target: str) -> Iterator[Scope]:
    """The model's graph and every graph nested in it, outer ones first. Bodies of functions have no initializers."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    taken = {name for graph in _graphs(model.graph) for name in _names(graph)}
    for graph in _graphs(model.graph):
        # Before IR version 4 every initializer had to be listed as an input, and meant a constant all the same.
        yield Scope(graph, opset, target, taken, model.ir_version >= 4)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in _inner(node):
            yield from _graphs(inner)


def _inner(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _names(graph: onnx.GraphProto) -> set[str]:
    values = [*graph.initializer, *graph.input, *graph.output]
    return {value.name for value in values} | {name for node in graph.node for name in (*node.input, *node.output)}


def _defined(graph: onnx.GraphProto) -> set[str]:
    values = [*graph.initializer, *graph.input]
    return {value.name for value in values} | {name for node in graph.node for name in node.output}


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = names[name]
        for inner in _inner(node):
            own = _defined(inner)
            _rename(inner, {old: new for old, new in names.items() if old not in own})


def _readers(graph: onnx.GraphProto, name: str) -> Iterator[str]:
    for node in graph.node:
        if name in node.input:
            yield node.op_type
        for inner in _inner(node):
            if name not in _defined(inner):
                yield from _readers(inner, name)
