"""A decoder-only language model as one graph: logits, and keys and values to continue from where it keeps some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.model_calls import (
    accepts_positions,
    cache_argument,
    cache_layers,
    cache_of,
    cache_pairs,
    uses_cache,
)
from vocabsurgeon.onnx.parts import MODEL, Feed, Part, Parts
from vocabsurgeon.onnx.probe import answer
from vocabsurgeon.onnx.signature import IDS, MASK, POSITIONS, CacheLayer, Signature, decoder, past_names

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

STATEFUL = "exported without a cache: the model keeps no key and value a layer, but states of another kind"
CACHELESS = "exported without a cache: the model keeps none"
PREFIXED = "exported without a cache: the model keeps other tokens than the text's (a prompt of its own)"
_STATES = "_is_stateful"
"""What transformers calls models of Mamba's kind; not all of them give back what they keep."""


def decoder_parts(model: PreTrainedModel, cache: bool) -> Parts:
    """The one graph of a decoder; without a cache where the model's is not keys and values, which is noted."""
    import torch

    ids = torch.zeros(1, 2, dtype=torch.int64)
    given = {IDS: ids, MASK: torch.ones_like(ids)}
    layers, notes = _layers(model, given) if cache else ((), ())
    outputs = answer(model, **given, **uses_cache(model, bool(layers)))
    signature = decoder(layers, outputs.logits.shape[-1])
    ignored = () if accepts_positions(model) else (POSITIONS,)
    return Parts((Part(MODEL, signature, _call(model, signature), ignored),), notes)


def _layers(model: PreTrainedModel, given: dict[str, Any]) -> tuple[tuple[CacheLayer, ...], tuple[str, ...]]:
    """The layers of the model's cache, or none and the reason: a class may even fail to make the one it needs."""
    try:
        outputs = answer(model, **given, **uses_cache(model, True))
    except OnnxError as error:
        return (), (f"exported without a cache: with one, {error.message}",)
    kept = cache_of(outputs)
    layers = cache_layers(kept)
    if layers is not None and cache_pairs(kept)[0][0].shape[2] != given[IDS].shape[1]:
        return (), (PREFIXED,)
    if layers is not None:
        return layers, ()
    return (), (STATEFUL if kept is not None or getattr(model, _STATES, False) else CACHELESS,)


def _call(model: PreTrainedModel, signature: Signature) -> Any:
    takes_positions, cache_name = accepts_positions(model), cache_argument(model)
    names, told = past_names(list(signature.inputs)), uses_cache(model, signature.caches)

    def call(feed: Feed) -> Sequence[torch.Tensor]:
        from transformers.cache_utils import DynamicCache

        given: dict[str, Any] = {POSITIONS: feed[POSITIONS]} if takes_positions else {}
        if names:
            past = [feed[name] for name in names]
            given[cache_name] = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        outputs = model(input_ids=feed[IDS], attention_mask=feed[MASK], **told, **given)
        present = [tensor for pair in cache_pairs(cache_of(outputs)) for tensor in pair] if names else []
        return [outputs.logits, *present]

    return call
