"""Every pass over the traced graphs of one export, in order, in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from vocabsurgeon.onnx.files import SMALL_CONSTANT
from vocabsurgeon.onnx.passes.constants import inline_constants
from vocabsurgeon.onnx.passes.interface import name_interface, unprefix
from vocabsurgeon.onnx.passes.share_across import share_across
from vocabsurgeon.onnx.passes.share_content import share_content
from vocabsurgeon.onnx.passes.simplify import simplify
from vocabsurgeon.onnx.passes.spell_out import spell_out
from vocabsurgeon.onnx.passes.strip import strip
from vocabsurgeon.onnx.passes.weight_layout import lay_out_weights
from vocabsurgeon.onnx.passes.widen_bfloat16 import widen_bfloat16
from vocabsurgeon.onnx.signature import Signature

if TYPE_CHECKING:
    import onnx_ir


def computed_bytes(graphs: Iterable[onnx_ir.Model], stored: Collection[str]) -> int:
    """Bytes of the weights of `graphs` that are not in `stored`, the checkpoint's names: tables of sines, say, which
    the model computes when it is made. A tensor that several graphs hold counts once."""
    tensors = {
        id(value.const_value): value.const_value.nbytes
        for graph in graphs
        for name, value in graph.graph.initializers.items()
        if value.const_value is not None and name not in stored
    }
    return sum(tensors.values())


def rewrite(graphs: Sequence[tuple[onnx_ir.Model, Signature]], parameters: Collection[str], prefix: str) -> None:
    """Make traced graphs what is written. `parameters`: the initializers that are the model's own, `prefix` included.

    A tensor that several graphs hold becomes one object, in one layout: the data file holds it once.
    """
    kept = frozenset(parameters)
    for graph, _ in graphs:
        simplify(graph, kept)
        widen_bfloat16(graph)
        share_content(graph)
        spell_out(graph, kept, SMALL_CONSTANT)
        inline_constants(graph, kept, SMALL_CONSTANT)
    common = share_across([graph for graph, _ in graphs])
    for graph, signature in graphs:
        lay_out_weights(graph, common)
        strip(graph)
        unprefix(graph, prefix)
        name_interface(graph, signature.inputs, signature.outputs)
