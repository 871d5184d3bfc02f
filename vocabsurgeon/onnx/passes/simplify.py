"""Fold what is constant in a traced graph and drop what nothing uses. Parameters stay as the checkpoint has them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def simplify(model: ir.Model, parameters: Collection[str]) -> None:
    """Run onnxscript's optimizer over `model`, in place, but never on a node that reads an initializer in `parameters`.

    Folding such a node would store a second, changed copy of the parameter: a transposed table, a scaled norm.
    """
    from onnxscript.optimizer import optimize_ir

    kept = frozenset(parameters)
    optimize_ir(model, should_fold=lambda node: False if _reads(node, kept) else None)


def _reads(node: ir.Node, names: frozenset[str]) -> bool:
    return any(value is not None and value.name in names for value in node.inputs)
