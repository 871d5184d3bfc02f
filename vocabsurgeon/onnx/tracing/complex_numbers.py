"""Complex tensors in a traced program, spelled so that torch.onnx translates them: rotations of Llama 4's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def spell_unsqueezes(program: torch.fx.GraphModule) -> None:
    """Let every `unsqueeze` of a complex tensor in `program` work on its real view `[…, 2]`, in place.

    `x[:, None]` becomes that operator, for which torch.onnx has a translation of real tensors alone.
    """
    import torch

    unsqueeze = torch.ops.aten.unsqueeze.default
    for node in list(program.graph.nodes):
        if node.op == "call_function" and node.target is unsqueeze and node.meta["val"].is_complex():
            source, axis = node.args
            with program.graph.inserting_before(node):
                parts = _call(program, torch.ops.aten.view_as_real.default, source)
                wider = _call(program, unsqueeze, parts, axis if axis >= 0 else axis - 1)
                result = _call(program, torch.ops.aten.view_as_complex.default, wider)
            node.replace_all_uses_with(result)
            program.graph.erase_node(node)
    program.recompile()


def _call(program: torch.fx.GraphModule, operator: torch._ops.OpOverload, *arguments: object) -> torch.fx.Node:
    """A node of the operator, with what the exporter reads of it: the shape and type of its value."""
    import torch

    node = program.graph.call_function(operator, arguments)  # type: ignore[arg-type]
    values = [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in arguments]
    node.meta["val"] = operator(*values)
    return node
