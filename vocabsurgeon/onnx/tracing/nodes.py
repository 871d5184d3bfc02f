"""Nodes that are put into a traced program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def call(program: torch.fx.GraphModule, operator: torch._ops.OpOverload, *arguments: Any) -> torch.fx.Node:
    """A node of the operator, with what the exporter reads of it: its value, or the value's shape and type."""
    import torch

    node = program.graph.call_function(operator, arguments)
    node.meta["val"] = operator(*torch.fx.map_arg(arguments, lambda each: each.meta["val"]))
    return node
