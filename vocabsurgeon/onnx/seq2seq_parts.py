"""An encoder–decoder model as two graphs: the encoder once a text, the decoder for the first call and every step.

The decoder takes keys and values of its own past, and those of the encoder's states. The latter are computed for the
states beyond `past_key_values.N.encoder.*`: all of them in the first call, where that past is empty, none in a step,
where it is full. So one graph without branches serves both, whatever the reader passes as states in a step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.cacheless import CACHELESS, STATEFUL, without_cache
from vocabsurgeon.onnx.caches import CacheForm, form_of, whole
from vocabsurgeon.onnx.model_calls import cache_argument, cache_of, uses_cache
from vocabsurgeon.onnx.parts import DECODER, ENCODER, Feed, Part, Parts
from vocabsurgeon.onnx.probe import answer
from vocabsurgeon.onnx.signature import (
    ENCODED_PAST,
    FEATURES,
    HIDDEN,
    IDS,
    MASK,
    STATES,
    STATES_MASK,
    KeptTensor,
    cross_decoder,
    speech_encoder,
    text_encoder,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Kind = TypeVar("Kind")


def seq2seq_parts(model: PreTrainedModel, cache: bool) -> Parts:
    """Encoder and decoder. Raises `OnnxError` where the model is no encoder–decoder of text, or of Whisper's kind."""
    import torch

    if not model.config.is_encoder_decoder:
        raise OnnxError(f"{type(model).__name__} is no encoder–decoder model", hint="use --task text-generation")
    speech = model.main_input_name == FEATURES
    feed = _first_feed(model, speech)
    encoded = answer(encoder_of(model), **feed)
    kind, states = type(encoded), encoded[HIDDEN]
    ids = torch.zeros(1, 2, dtype=torch.int64)
    mask = None if speech else feed[MASK]
    given = {"encoder_outputs": kind(last_hidden_state=states), "attention_mask": mask, "decoder_input_ids": ids}
    outputs = answer(model, **given, **uses_cache(model, cache))
    encoder = _encoder(model, feed, states)
    form = None if mask is None else _mask_form(model, kind(last_hidden_state=states), mask, ids)
    forms, notes = _forms(model, given, cache_of(outputs)) if cache else (None, ())
    kept = () if forms is None else forms.kept(model.dtype)
    signature = cross_decoder(kept, outputs.logits.shape[-1], states.shape[-1], mask is not None)
    return Parts((encoder, Part(DECODER, signature, _call(model, forms, kind, form))), notes)


def encoder_of(model: PreTrainedModel) -> torch.nn.Module:
    """The encoder inside an encoder–decoder model."""
    found: torch.nn.Module = model.get_encoder()
    return found


def sound_shape(model: PreTrainedModel) -> tuple[int, int] | None:
    """Mel bins and frames that Whisper's encoder takes, two frames a position; None where the config tells no such."""
    bins, positions = (getattr(model.config, name, None) for name in ("num_mel_bins", "max_source_positions"))
    return (bins, 2 * positions) if isinstance(bins, int) and isinstance(positions, int) else None


def _first_feed(model: PreTrainedModel, speech: bool) -> dict[str, torch.Tensor]:
    import torch

    if not speech:
        ids = torch.zeros(1, 2, dtype=torch.int64)
        return {IDS: ids, MASK: torch.ones_like(ids)}
    shape = sound_shape(model)
    if shape is None:
        raise OnnxError(f"{type(model).__name__} reads speech in a form that is not known")
    return {FEATURES: torch.zeros(1, *shape, dtype=model.dtype)}


def _encoder(model: PreTrainedModel, feed: dict[str, torch.Tensor], states: torch.Tensor) -> Part:
    module, width = encoder_of(model), states.shape[-1]
    shape = sound_shape(model) if FEATURES in feed else None
    signature = text_encoder(width) if shape is None else speech_encoder(*shape, states.shape[1], width)

    def call(given: Feed) -> Sequence[torch.Tensor]:
        return [module(**given)[HIDDEN]]

    return Part(ENCODER, signature, call)


@dataclass(frozen=True)
class _Forms:
    """A decoder's cache: of its own tokens, and of the encoder's states; with as many layers."""

    own: CacheForm
    crossed: CacheForm

    def kept(self, dtype: torch.dtype) -> list[KeptTensor]:
        """Layer by layer: its own keys and values, then those of the encoder's states."""
        return _in_turn(self.own.kept(dtype), self.crossed.kept(dtype, ENCODED_PAST))

    def filled(self, past: Sequence[torch.Tensor]) -> Any:
        """A cache that the model adds to on both sides: its own tokens, and states that it has not seen."""
        from transformers.cache_utils import DynamicCache, EncoderDecoderCache

        pairs = [past[start : start + 2] for start in range(0, len(past), 2)]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        cache.self_attention_cache = self.own.filled([tensor for pair in pairs[::2] for tensor in pair])
        cache.cross_attention_cache = self.crossed.filled([tensor for pair in pairs[1::2] for tensor in pair])
        return cache

    def read(self, cache: Any) -> list[torch.Tensor]:
        """The tensors of such a cache, in the order of `kept`."""
        return _in_turn(self.own.read(cache.self_attention_cache), self.crossed.read(cache.cross_attention_cache))


def _forms(model: PreTrainedModel, given: dict[str, Any], kept: Any) -> tuple[_Forms | None, tuple[str, ...]]:
    """The forms of the decoder's caches, asked for with some that keep everything, or none and the reason. `kept`: the
    model's own, which may be something else than a key and a value a layer on both sides."""
    from transformers.cache_utils import EncoderDecoderCache

    if kept is None:
        return None, (CACHELESS,)
    if not isinstance(kept, EncoderDecoderCache):
        return None, (STATEFUL,)
    empty = EncoderDecoderCache(whole(kept.self_attention_cache), whole(kept.cross_attention_cache))
    try:
        cache = cache_of(answer(model, **given, **uses_cache(model, True), **{cache_argument(model): empty}))
    except OnnxError as error:
        return None, (without_cache(error.message),)
    own = form_of(cache.self_attention_cache, model.config, "decoder.")
    crossed = form_of(cache.cross_attention_cache, model.config, "encoder.")
    if own is None or crossed is None or len(own.slots) != len(crossed.slots) or len(own.slots) % 2:
        return None, (STATEFUL,)
    return _Forms(own, crossed), ()


def _in_turn(own: Sequence[Kind], crossed: Sequence[Kind]) -> list[Kind]:
    """Two of one, two of the other: key and value."""
    return [held for layer in range(0, len(own), 2) for held in (*own[layer : layer + 2], *crossed[layer : layer + 2])]


def _call(model: PreTrainedModel, forms: _Forms | None, kind: type[Any], form: MaskForm | None) -> Any:
    """The decoder's call; `kind`: what the encoder's answer is an object of, as models read more of it than states;
    `form`: how it takes the encoder's mask."""
    names = [] if forms is None else [tensor.name for tensor in forms.kept(model.dtype)]
    told, cache_name = uses_cache(model, forms is not None), cache_argument(model)

    def call(feed: Feed) -> Sequence[torch.Tensor]:
        states, given = feed[STATES], dict[str, Any](told)
        if forms is not None:
            given[cache_name] = forms.filled([feed[name] for name in names])
            states = _beyond(states, feed[names[2]])
        if form is not None:
            given["attention_mask"] = form(feed[STATES_MASK], states.dtype, feed[IDS].shape[1])
        outputs = model(encoder_outputs=kind(last_hidden_state=states), decoder_input_ids=feed[IDS], **given)
        return [outputs.logits, *(forms.read(cache_of(outputs)) if forms is not None else ())]

    return call


def _beyond(states: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
    """The states whose keys are not in the past yet."""
    import torch

    known = past.shape[2]
    torch._check(known <= states.shape[1])  # type: ignore[no-untyped-call]
    return states[:, known:]


def _mask_form(model: PreTrainedModel, encoded: Any, mask: torch.Tensor, ids: torch.Tensor) -> MaskForm:
    """The first of `_FORMS` that the class takes; raises `OnnxError` where it takes none."""
    for form in _FORMS[:-1]:
        with contextlib.suppress(OnnxError):
            _decode(model, encoded, form(mask, encoded[HIDDEN].dtype, ids.shape[1]), ids)
            return form
    _decode(model, encoded, mask, ids)
    return _FORMS[-1]


def _decode(model: PreTrainedModel, encoded: Any, mask: torch.Tensor, ids: torch.Tensor) -> None:
    answer(
        model, encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=ids, **uses_cache(model, wanted=False)
    )


def _additive(mask: torch.Tensor, dtype: torch.dtype, tokens: int) -> torch.Tensor:
    """A mask `[batch, length]` as what attention adds, `[batch, 1, 1, length]`: models pass one of four dimensions on
    as it is, where from one of two they would take the length of the states."""
    import torch

    return (1 - mask)[:, None, None, :].to(dtype) * torch.finfo(dtype).min


def _wide(mask: torch.Tensor, dtype: torch.dtype, tokens: int) -> torch.Tensor:
    """The same for every token, `[batch, 1, tokens, length]`: MVP insists."""
    return _additive(mask, dtype, tokens).expand(-1, -1, tokens, -1)


def _plain(mask: torch.Tensor, dtype: torch.dtype, tokens: int) -> torch.Tensor:
    """As it is: FSMT and ProphetNet make their own of it."""
    return mask


MaskForm = Callable[["torch.Tensor", "torch.dtype", int], "torch.Tensor"]
_FORMS: tuple[MaskForm, ...] = (_additive, _wide, _plain)
"""How classes take the encoder's mask; which one a class takes is tried, and parity tells whether it is right."""
