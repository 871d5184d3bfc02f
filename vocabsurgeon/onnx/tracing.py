"""From a torch decoder to an ONNX graph: `torch.export` and `torch.onnx` with the patches of `transformers.exporters`.

The graph comes out as traced, weights in the checkpoint's orientation and shared with the model; `passes` do the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.quiet import mute, quiet
from vocabsurgeon.onnx.signature import IDS, MASK, POSITIONS, CacheLayer, Signature

if TYPE_CHECKING:
    import onnx_ir
    import torch
    from transformers import PreTrainedModel

_CACHE_NAMES = ("cache", "past_key_values")
_NO_CACHE = "pass --no-cache"
WRAPPED = "model"
"""What the traced module calls the model: parameters are named `model.…`."""
_BATCH, _SEQUENCE, _PAST = 2, 3, 5
"""Sizes of the example that is traced: all different, none 0 or 1, so that none is taken for a constant."""


def accepts_positions(model: PreTrainedModel) -> bool:
    """Whether the model reads `position_ids`; Bloom, say, takes positions from the mask alone."""
    return POSITIONS in inspect.signature(model.forward).parameters


def signature_of(model: PreTrainedModel, cache: bool) -> Signature:
    """Run one token through the model to see the shapes of its cache and logits.

    Raises `OnnxError` where the cache is not one key and one value tensor a layer.
    """
    import torch

    with torch.no_grad(), quiet():
        ids = torch.zeros(1, 2, dtype=torch.int64)
        outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=cache)
    rows = outputs.logits.shape[-1]
    return Signature(_layers(cache_of(outputs)) if cache else (), rows)


def cache_of(outputs: Any) -> Any:
    """The cache object that a forward pass gave back, None without one."""
    return next((outputs.get(name) for name in _CACHE_NAMES if outputs.get(name) is not None), None)


def cache_argument(model: PreTrainedModel) -> str:
    """What the model calls the cache it is given: transformers 5.24 renamed it, and warns about the old name."""
    return next(
        (name for name in _CACHE_NAMES if name in inspect.signature(model.forward).parameters), _CACHE_NAMES[-1]
    )


def cache_pairs(cache: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of each layer of a transformers cache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


def trace(model: PreTrainedModel, signature: Signature, opset: int | None) -> onnx_ir.Model:
    """The model as an ONNX graph with the names of `signature` and dynamic batch, sequence and past.

    `opset` None is torch's default. Weights are not copied. Raises `OnnxError` where torch cannot export the model.
    """
    import torch
    from transformers.exporters import exporter_onnx
    from transformers.exporters.utils import apply_fx_node_fixes, apply_patches

    example = _example(model, signature)
    with _traceable(model), torch.no_grad(), mute(), apply_patches("onnx"), apply_patches("dynamo"):
        try:
            program = torch.export.export(
                _wrapper(model, bool(signature.layers)),
                (),
                kwargs=example,
                dynamic_shapes=_dynamic_shapes(example),
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
            apply_fx_node_fixes("onnx", program.graph_module)
            converted: Any = torch.onnx.export(
                program,
                args=(),
                input_names=list(signature.inputs()),
                output_names=list(signature.outputs()),
                custom_translation_table=exporter_onnx._ONNX_TRANSLATION_TABLE,
                opset_version=opset,
                optimize=False,
                verbose=False,
            )
        except Exception as error:  # torch raises whatever the model's own code made it raise
            raise _not_exportable(error) from error
    exporter_onnx.apply_onnx_ir_fixes(converted)
    graph: onnx_ir.Model = converted.model
    return graph


def _not_exportable(error: Exception) -> OnnxError:
    cause = error.__cause__ or error
    reason = next((line.strip() for line in str(cause).splitlines() if line.strip()), "no reason given")
    return OnnxError(f"torch cannot export the model: {type(cause).__name__}: {reason}")


def _layers(cache: Any) -> tuple[CacheLayer, ...]:
    try:
        pairs = cache_pairs(cache)
        return tuple(CacheLayer((key.shape[1], key.shape[3]), (value.shape[1], value.shape[3])) for key, value in pairs)
    except (AttributeError, IndexError, TypeError) as error:
        raise OnnxError("keeps no key and value a layer: its cache cannot be exported", hint=_NO_CACHE) from error


def _example(model: PreTrainedModel, signature: Signature) -> dict[str, Any]:
    """Inputs to trace with. The mask holds a zero, so that no shortcut for all-ones masks is traced."""
    import torch

    past = _PAST if signature.layers else 0
    mask = torch.ones(_BATCH, past + _SEQUENCE, dtype=torch.int64)
    mask[0, 0] = 0
    example: dict[str, Any] = {
        IDS: torch.zeros(_BATCH, _SEQUENCE, dtype=torch.int64),
        MASK: mask,
        POSITIONS: torch.arange(past, past + _SEQUENCE).expand(_BATCH, _SEQUENCE).contiguous(),
    }
    if signature.layers:
        pairs = [(layer.key, layer.value) for layer in signature.layers]
        example["past"] = [
            tuple(torch.zeros(_BATCH, heads, past, width, dtype=model.dtype) for heads, width in pair) for pair in pairs
        ]
    return example


def _dynamic_shapes(example: dict[str, Any]) -> dict[str, Any]:
    from torch.export import Dim

    batch, sequence = Dim("batch"), Dim("sequence")
    shapes: dict[str, Any] = {
        IDS: {0: batch, 1: sequence},
        MASK: {0: batch, 1: Dim.AUTO if "past" in example else sequence},
        POSITIONS: {0: batch, 1: sequence},
    }
    if "past" in example:
        past = Dim("past")
        shapes["past"] = [tuple({0: batch, 2: past} for _ in pair) for pair in example["past"]]
    return shapes


def _wrapper(model: PreTrainedModel, cached: bool) -> torch.nn.Module:
    """A module with the graph's own signature around the model."""
    import torch
    from transformers.cache_utils import DynamicCache

    takes_positions, cache_name = accepts_positions(model), cache_argument(model)

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            position_ids: torch.Tensor,
            past: Sequence[tuple[torch.Tensor, torch.Tensor]] | None = None,
        ) -> Any:
            given: dict[str, Any] = {POSITIONS: position_ids} if takes_positions else {}
            if past is not None:
                given[cache_name] = DynamicCache([tuple(pair) for pair in past])
            outputs = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=cached, **given)
            return (outputs.logits, cache_pairs(cache_of(outputs))) if cached else (outputs.logits,)

    class Plain(Decoder):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor) -> Any:  # type: ignore[override]
            return super().forward(input_ids, attention_mask, position_ids)

    return (Decoder if cached else Plain)().eval()


@contextmanager
def _traceable(model: PreTrainedModel) -> Iterator[None]:
    """The model with eager attention inside the block: plain matrix products and a softmax that stays finite on rows
    that attend to nothing. The implementation it had comes back."""
    before = model.config._attn_implementation
    with quiet():
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        with quiet():
            model.set_attn_implementation(before)
