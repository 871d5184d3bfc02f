"""Rewrite a slim model so that each content has one initializer in a graph, and a transpose none. In place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vocabsurgeon.onnx.dedupe.contents import Contents, Place
from vocabsurgeon.onnx.dedupe.products import MICROSOFT, ONNXRUNTIME, read_turned
from vocabsurgeon.onnx.dedupe.scope import Scope, scopes
from vocabsurgeon.onnx.dedupe.slim import refer, reference_of
from vocabsurgeon.onnx.dedupe.unfold import unfold
from vocabsurgeon.onnx.files import SMALL_CONSTANT
from vocabsurgeon.onnx.tensors import StoredTensor

if TYPE_CHECKING:
    import onnx

ONE_TENSOR, TRANSPOSE = "one tensor", "Transpose"


@dataclass
class Merger:
    """The tensors that references of the slim models number, and what became of each content (`forms`)."""

    contents: Contents
    tensors: list[StoredTensor]
    target: str
    forms: dict[Place, list[str]] = field(default_factory=dict)
    unfolded: dict[str, list[str]] = field(default_factory=dict)
    """Table → forms in which it is read as it lies, where a session would have made a second copy."""

    def merge(self, model: onnx.ModelProto) -> None:
        """Merge in every graph of `model`.

        Initializers that are inputs too are left alone: who runs the graph may replace one and not the other. Those
        that are outputs keep their names. Bodies of functions hold constants alone, which share bytes, not names.
        """
        if model.ir_version >= 4:
            _lift_constants(model.graph)
        for scope in scopes(model, self.target):
            self._merge_equal(scope)
            self._merge_turned(scope)
            self._unfold(scope)
        _import_domain(model)

    def _large(self, scope: Scope) -> Iterator[tuple[onnx.TensorProto, StoredTensor]]:
        fixed = scope.overridable()
        for entry in list(scope.graph.initializer):
            number = reference_of(entry)
            if number is None or entry.name in fixed or self.tensors[number].nbytes < SMALL_CONSTANT:
                continue
            yield entry, self.tensors[number]

    def _merge_equal(self, scope: Scope) -> None:
        firsts: dict[tuple[object, ...], str] = {}
        renamed: dict[str, str] = {}
        outputs = scope.outputs()
        for entry, tensor in self._large(scope):
            root = self.contents.root(tensor)
            first = firsts.setdefault((root.place, tensor.element.name, tensor.shape), entry.name)
            if first != entry.name and entry.name not in outputs:
                renamed[entry.name] = first
                self._note(tensor, ONE_TENSOR)
        scope.rename(renamed)
        scope.drop(set(renamed))

    def _merge_turned(self, scope: Scope) -> None:
        for entry, tensor in self._large(scope):
            upright = self.contents.transposed(tensor)
            if upright is None or tensor.shape != upright.shape[::-1]:
                continue
            name, table = entry.name, self._table(scope, entry, upright)
            for form in read_turned(scope, name, table, upright):
                self._note(tensor, form)
            scope.drop({name})
            if scope.is_read(name):
                _transpose(scope, table, name)
                self._note(tensor, TRANSPOSE)

    def _unfold(self, scope: Scope) -> None:
        for entry, tensor in self._large(scope):
            forms = unfold(scope, entry, tensor)
            if forms:
                self.unfolded.setdefault(tensor.name, []).extend(forms)

    def _table(self, scope: Scope, turned: onnx.TensorProto, upright: StoredTensor) -> str:
        """The name of the initializer that holds `upright` in `scope`, added where there is none."""
        import onnx

        for entry, tensor in self._large(scope):
            if self.contents.root(tensor).place == upright.place and tensor.shape == upright.shape:
                return entry.name
        name = scope.new_name(f"{turned.name}_transposed")
        added = onnx.TensorProto(name=name, data_type=turned.data_type, dims=upright.shape)
        added.data_location = onnx.TensorProto.EXTERNAL
        refer(added, self._number(upright))
        scope.graph.initializer.append(added)
        return name

    def _number(self, tensor: StoredTensor) -> int:
        return next(number for number, known in enumerate(self.tensors) if known.place == tensor.place)

    def _note(self, tensor: StoredTensor, form: str) -> None:
        known = self.forms.setdefault(tensor.place, [])
        if form not in known:
            known.append(form)


def referring(model: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, int]]:
    """Every tensor of a slim model that is a reference, with its number: in graphs, nested graphs and functions."""
    for tensor in _tensors(model):
        number = reference_of(tensor)
        if number is not None:
            yield tensor, number


def renumber(model: onnx.ModelProto, first: int) -> None:
    """Count the references of a slim model from `first` on, in place: the tensors of several models in one list."""
    for tensor, number in list(referring(model)):
        refer(tensor, first + number)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors_of_graph(graph)


def _lift_constants(graph: onnx.GraphProto) -> None:
    """Make each large `Constant` of the main graph an initializer, so that it can be merged by name."""
    kept = []
    for node in graph.node:
        held = [attribute.t for attribute in node.attribute if attribute.name == "value"]
        if node.op_type != "Constant" or not held or reference_of(held[0]) is None:
            kept.append(node)
            continue
        entry = graph.initializer.add()
        entry.CopyFrom(held[0])
        entry.name = node.output[0]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)


def _transpose(scope: Scope, table: str, name: str) -> None:
    """Give `name` back to those that still read it, as the table's transpose."""
    from onnx import helper

    node = helper.make_node("Transpose", [table], [name], name=scope.new_name(f"{name}_Transpose"), perm=[1, 0])
    scope.graph.node.insert(0, node)


def _import_domain(model: onnx.ModelProto) -> None:
    used = any(node.domain == MICROSOFT for scope in scopes(model, ONNXRUNTIME) for node in scope.graph.node)
    if used and all(entry.domain != MICROSOFT for entry in model.opset_import):
        entry = model.opset_import.add()
        entry.domain, entry.version = MICROSOFT, 1
