"""From a part in torch to an ONNX graph: `torch.export` and `torch.onnx` with the patches of `transformers.exporters`.

The graph comes out as traced, weights in the checkpoint's orientation and shared with the model; `passes` do the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.quiet import mute
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.attention import eager
from vocabsurgeon.onnx.horizons import most_tokens, stated
from vocabsurgeon.onnx.parts import Part
from vocabsurgeon.onnx.probe import first_line
from vocabsurgeon.onnx.signature import (
    BATCH,
    ENCODED,
    ENCODED_PAST,
    IDS,
    MASK,
    PAST,
    POSITIONS,
    SEQUENCE,
    STATES_MASK,
    TOTAL,
    TYPES,
    past_names,
)
from vocabsurgeon.onnx.tracing.assumed_lengths import broken_assumption
from vocabsurgeon.onnx.tracing.complex_numbers import spell_unsqueezes
from vocabsurgeon.onnx.tracing.dynamic_rotary import dynamic_rotary
from vocabsurgeon.onnx.tracing.known_sizes import state_sizes
from vocabsurgeon.onnx.tracing.local_attention import local_attention
from vocabsurgeon.onnx.tracing.replaced import replaced
from vocabsurgeon.onnx.tracing.unread import unread

if TYPE_CHECKING:
    import onnx_ir
    import torch
    from transformers import PreTrainedModel

WRAPPED = "model"
"""What the traced module calls the model: parameters are named `model.…`."""
_SIZES = {BATCH: 2, SEQUENCE: 3, PAST: 5, TOTAL: 8, ENCODED: 11, ENCODED_PAST: 4}
"""Sizes of the example that is traced: all different, none 0 or 1, so that none is taken for a constant."""
_CHUNKS = (
    "chunk_size",
    "mamba_chunk_size",
    "attention_chunk_size",
    "attention_window",
    "block_size",
    "compress_rates",
    "index_block_size",
    "local_radius",
    "local_attn_chunk_length",
    "lsh_attn_chunk_length",
)
"""Config values in tokens: a model that works by chunks is traced on more than one, or their number would be fixed."""
_ASSUMED = "holds for the traced lengths alone"
_FIXED = ("conflicts between user-specified ranges", "Constraints violated", _ASSUMED)
_BRANCHES = "data-dependent expression"
_INTEGERS = (IDS, MASK, POSITIONS, TYPES, STATES_MASK)


def trace(model: PreTrainedModel, part: Part, opset: int | None) -> onnx_ir.Model:
    """The part as an ONNX graph with the names of its signature; every named dimension is dynamic.

    `opset` None is torch's default. Weights are not copied. Raises `OnnxError` where torch cannot export the model, and
    where the model's own code drops what a cache holds.
    """
    import torch
    from transformers.exporters import exporter_onnx
    from transformers.exporters.exporter_dynamo import reset_model_state
    from transformers.exporters.utils import apply_fx_node_fixes, apply_patches

    with (
        eager(model),
        replaced(model),
        local_attention(model),
        dynamic_rotary(model),
        torch.no_grad(),
        mute(),
        apply_patches("onnx"),
        apply_patches("dynamo"),
    ):
        try:
            with reset_model_state(model):
                program = torch.export.export(
                    _wrapper(model, part),
                    (_example(part, model),),
                    dynamic_shapes=(_dynamic_shapes(part),),
                    strict=False,
                    prefer_deferred_runtime_asserts_over_guards=True,
                )
            _check_lengths(program, model, part)
            apply_fx_node_fixes("onnx", program.graph_module)
            spell_unsqueezes(program.graph_module)
            state_sizes(program.graph_module)
            converted: Any = torch.onnx.export(
                program,
                args=(),
                input_names=list(part.signature.inputs),
                output_names=list(part.signature.outputs),
                custom_translation_table=exporter_onnx._ONNX_TRANSLATION_TABLE,
                opset_version=opset,
                optimize=False,
                verbose=False,
            )
        except Exception as error:  # torch raises whatever the model's own code made it raise
            raise OnnxError(f"torch cannot export the model: {_reason(error.__cause__ or error)}") from error
    exporter_onnx.apply_onnx_ir_fixes(converted)
    graph: onnx_ir.Model = converted.model
    forgotten = unread(graph, past_names(list(part.signature.inputs)))
    if forgotten:
        raise OnnxError(f"the model does not go on from what it keeps ({forgotten[0]}) where several tokens follow")
    return graph


def _check_lengths(program: torch.export.ExportedProgram, model: PreTrainedModel, part: Part) -> None:
    """Raise where the program is for as many tokens as the example has, or chunks of them."""
    broken = broken_assumption(program, part.signature, most_tokens(model, 1))
    if broken is not None:
        raise ValueError(f"{_ASSUMED}: {broken}")


def _reason(error: BaseException) -> str:
    """Why in one line: torch tells at length that it would have to fix a dimension."""
    if any(mark in str(error) for mark in _FIXED):
        return "its forward pass fixes the batch or the length it is traced with (a loop over tokens, say)"
    if _BRANCHES in str(error):
        return "its forward pass branches on the values of its inputs (routing to experts, say)"
    return first_line(error)


def _example(part: Part, model: PreTrainedModel) -> list[torch.Tensor]:
    """Inputs to trace with. The masks hold a zero, so that no shortcut for all-ones masks is traced."""
    import torch

    sizes, dtype = _sizes(model), model.dtype
    example = []
    for name, dimensions in part.signature.inputs.items():
        shape = [sizes[size] if isinstance(size, str) else size for size in dimensions]
        if name == POSITIONS:
            past = sizes[PAST] if part.signature.caches else 0
            tensor = torch.arange(past, past + shape[1]).expand(shape).contiguous()
        elif name in (MASK, STATES_MASK):
            tensor = torch.ones(shape, dtype=torch.int64)
            tensor[0, 0] = 0
        else:
            floating = torch.float32 if name in part.signature.wide else dtype
            tensor = torch.zeros(shape, dtype=torch.int64 if name in _INTEGERS else floating)
        example.append(tensor)
    return example


def _sizes(model: PreTrainedModel) -> dict[str, int]:
    """The example's sizes, the lengths of texts beyond two chunks where the model works by chunks."""
    config: Any = model.config.get_text_config()
    chunk = max((size for name in _CHUNKS for size in stated(config, name)), default=0)
    longer = max(0, min(2 * chunk, most_tokens(model, _SIZES[ENCODED]) - 2 * _SIZES[ENCODED]))
    return {name: size + (longer if name in (SEQUENCE, TOTAL, ENCODED) else 0) for name, size in _SIZES.items()}


def _dynamic_shapes(part: Part) -> list[dict[int, Any]]:
    """For each input the dynamic axes. torch infers which are equal and how long they may get (a table of positions
    ends somewhere), but may fix none; the total length alone follows from others."""
    from torch.export import Dim

    return [
        {axis: Dim.AUTO if size == TOTAL else Dim.DYNAMIC for axis, size in enumerate(sizes) if isinstance(size, str)}
        for sizes in part.signature.inputs.values()
    ]


def _wrapper(model: PreTrainedModel, part: Part) -> torch.nn.Module:
    """A module with the part's own inputs and outputs around the model."""
    import torch

    class Traced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return list(part.call(dict(zip(part.signature.inputs, tensors, strict=True))))

    return Traced().eval()
