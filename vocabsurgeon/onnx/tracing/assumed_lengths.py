"""What torch took for granted about lengths while tracing: it holds for the example, and the graph does not check it.

A loop over chunks, say, is traced as often as the example has chunks; a longer text would be computed wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.signature import BATCH, PAST, SEQUENCE, TOTAL, Signature

if TYPE_CHECKING:
    import torch

_LONGER = (1, 61, 127, 509)
"""Tokens more than the example has, of which no multiple of a chunk's usual size is near two."""


def broken_assumption(program: torch.export.ExportedProgram, signature: Signature, most: int) -> str | None:
    """An equation that holds for the example's lengths and not for longer ones of up to `most` tokens, None without.

    Inequalities are left alone: most of them say that a size is not 0 or 1.
    """
    sizes = _symbols(program, signature)
    hints = {symbol: _hint(program, symbol) for symbol in sizes.values()}
    equations = [equation for equation in _equations(program) if equation.free_symbols <= set(hints)]
    for longer in _longer(sizes, hints, most):
        for equation in equations:
            if equation.subs(longer) == False:  # noqa: E712  sympy's own false
                return str(equation)
    return None


def _longer(sizes: Mapping[str, Any], hints: Mapping[Any, int], most: int) -> Iterator[dict[Any, int]]:
    """Sizes of longer texts, by symbol: every length by as much, the total what it follows from."""
    texts = [sizes[name] for name in (PAST, SEQUENCE) if name in sizes]
    held = sum(hints[symbol] for symbol in texts)
    for more in {*_LONGER, (most - held) // max(1, len(texts))}:
        longer = {symbol: hints[symbol] + more for name, symbol in sizes.items() if name not in (BATCH, TOTAL)}
        total = sum(longer[symbol] for symbol in texts)
        if more > 0 and total <= most:
            yield {**hints, **longer, **({sizes[TOTAL]: total} if TOTAL in sizes else {})}


def _symbols(program: torch.export.ExportedProgram, signature: Signature) -> dict[str, Any]:
    """Dimension → its symbol, of those that torch gave one of their own."""
    import torch

    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for name, dimensions in zip(program.graph_signature.user_inputs, signature.inputs.values(), strict=True):
        for size, dimension in zip(nodes[str(name)].meta["val"].shape, dimensions, strict=True):
            if isinstance(size, torch.SymInt) and isinstance(dimension, str) and size.node.expr.is_Symbol:
                found[dimension] = size.node.expr
    return found


def _hint(program: torch.export.ExportedProgram, symbol: Any) -> int:
    for node in program.graph.nodes:
        for size in getattr(node.meta.get("val"), "shape", ()):
            if getattr(getattr(size, "node", None), "expr", None) == symbol:
                return int(size.node.hint)
    raise LookupError(symbol)


def _equations(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """The equations among the assertions that torch deferred to a run of the program."""
    import torch

    for node in program.graph.nodes:
        if node.target == torch.ops.aten._assert_scalar.default:
            condition = getattr(node.args[0], "meta", {}).get("val")
            expression = getattr(getattr(condition, "node", None), "expr", None)
            if getattr(expression, "rel_op", None) == "==":
                yield expression
