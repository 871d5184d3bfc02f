"""Complex tensors in a traced program, spelled so that torch.onnx translates them: rotations of Llama 4's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vocabsurgeon.onnx.tracing.nodes import call

if TYPE_CHECKING:
    import torch


def spell_unsqueezes(program: torch.fx.GraphModule) -> None:
    """Let every `unsqueeze` of a complex tensor in `program` work on its real view `[…, 2]`, in place.

    `x[:, None]` becomes that operator, for which torch.onnx has a translation of real tensors alone.
    """
    import torch

    unsqueeze = torch.ops.aten.unsqueeze.default
    for node in list(program.graph.nodes):
        if node.op == "call_function" and node.target is unsqueeze and _is_complex(node):
            source, axis = node.args
            with program.graph.inserting_before(node):
                parts = call(program, torch.ops.aten.view_as_real.default, source)
                wider = call(program, unsqueeze, parts, axis if axis >= 0 else axis - 1)
                result = call(program, torch.ops.aten.view_as_complex.default, wider)
            node.replace_all_uses_with(result)
            program.graph.erase_node(node)
    program.recompile()


def _is_complex(node: torch.fx.Node) -> bool:
    """Whether its value is; nodes that were put in after tracing may state none."""
    value = node.meta.get("val")
    return value is not None and bool(value.is_complex())
