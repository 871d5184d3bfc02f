"""Sizes that a program leaves open although they are known: a runtime cannot tell them for a tensor without elements.

DeepSeek V4 makes such tensors as long as a text has no whole window to compress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vocabsurgeon.onnx.tracing.nodes import call

if TYPE_CHECKING:
    import torch

_OPEN = -1


def state_sizes(program: torch.fx.GraphModule) -> None:
    """Put the size in the place of -1 in every view of `program` where it is one number at every length, and spell
    `repeat_interleave` as such views, in place."""
    import torch

    views = (torch.ops.aten.view.default, torch.ops.aten.reshape.default)
    for node in list(program.graph.nodes):
        if "val" not in node.meta:
            continue  # put in after tracing
        if node.op == "call_function" and node.target is torch.ops.aten.repeat_interleave.self_int:
            _spell_repeat(program, node)
        elif node.op == "call_function" and node.target in views:
            node.args = (node.args[0], _stated(node.args[1], node.meta["val"].shape))
    program.recompile()


def _stated(asked: list[object], found: torch.Size) -> list[object]:
    return [
        size if asked_for == _OPEN and isinstance(size, int) else asked_for
        for asked_for, size in zip(asked, found, strict=True)
    ]


def _spell_repeat(program: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Each slice along an axis of known size several times in a row: a new axis, expanded, and one view."""
    import torch

    (source, times, *rest), shape = node.args, node.meta["val"].shape
    axis = rest[0] if rest else node.kwargs.get("dim")
    if not isinstance(source, torch.fx.Node) or not isinstance(times, int) or not isinstance(axis, int):
        return
    place = axis % len(shape)
    if not isinstance(shape[place], int):
        return
    aten = torch.ops.aten
    with program.graph.inserting_before(node):
        sizes = [
            size if isinstance(size, int) else call(program, aten.sym_size.int, source, number)
            for number, size in enumerate(shape)
        ]
        wider = call(program, aten.unsqueeze.default, source, place + 1)
        repeats = [_OPEN] * (place + 1) + [times] + [_OPEN] * (len(shape) - place - 1)
        result = call(program, aten.reshape.default, call(program, aten.expand.default, wider, repeats), sizes)
    node.replace_all_uses_with(result)
    program.graph.erase_node(node)
