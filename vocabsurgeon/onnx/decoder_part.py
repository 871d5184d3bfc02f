"""A decoder-only language model as one graph: logits, and what its layers keep to continue from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.cacheless import CACHELESS, PREFIXED, STATEFUL, without_cache
from vocabsurgeon.onnx.caches import CacheForm, form_of, of_own_tokens, whole
from vocabsurgeon.onnx.model_calls import accepts_positions, cache_argument, cache_of, uses_cache
from vocabsurgeon.onnx.parts import MODEL, Feed, Part, Parts
from vocabsurgeon.onnx.probe import answer
from vocabsurgeon.onnx.signature import IDS, MASK, POSITIONS, decoder

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_STATES = "_is_stateful"
"""What transformers calls models of Mamba's kind; not all of them give back what they keep."""


def decoder_parts(model: PreTrainedModel, cache: bool) -> Parts:
    """The one graph of a decoder; without a cache where the model keeps none that a graph can hold, which is noted."""
    import torch

    ids = torch.zeros(1, 2, dtype=torch.int64)
    given = {IDS: ids, MASK: torch.ones_like(ids)}
    form, notes = _form(model, given) if cache else (None, ())
    outputs = answer(model, **given, **uses_cache(model, form is not None))
    signature = decoder(() if form is None else form.kept(model.dtype), outputs.logits.shape[-1])
    ignored = () if accepts_positions(model) else (POSITIONS,)
    return Parts((Part(MODEL, signature, _call(model, form), ignored),), notes)


def _form(model: PreTrainedModel, given: dict[str, Any]) -> tuple[CacheForm | None, tuple[str, ...]]:
    """The form of the model's cache, or none and the reason: a class may even fail to make the one it needs."""
    told = uses_cache(model, True)
    try:
        kept = of_own_tokens(cache_of(answer(model, **given, **told)))
        if not hasattr(kept, "layers"):
            return None, (STATEFUL if kept is not None or getattr(model, _STATES, False) else CACHELESS,)
        outputs = answer(model, **given, **told, **{cache_argument(model): whole(kept)})
    except OnnxError as error:
        return None, (without_cache(error.message),)
    form = form_of(of_own_tokens(cache_of(outputs)), model.config)
    if form is None:
        return None, (STATEFUL,)
    return (form, ()) if form.follows(given[IDS].shape[1]) else (None, (PREFIXED,))


def _call(model: PreTrainedModel, form: CacheForm | None) -> Any:
    takes_positions, cache_name = accepts_positions(model), cache_argument(model)
    told = uses_cache(model, form is not None)
    names = [] if form is None else [slot.name for slot in form.slots]

    def call(feed: Feed) -> Sequence[torch.Tensor]:
        given: dict[str, Any] = {POSITIONS: feed[POSITIONS]} if takes_positions else {}
        if form is not None:
            given[cache_name] = form.filled([feed[name] for name in names])
        outputs = model(input_ids=feed[IDS], attention_mask=feed[MASK], **told, **given)
        return [outputs.logits, *(form.read(of_own_tokens(cache_of(outputs))) if form is not None else ())]

    return call
