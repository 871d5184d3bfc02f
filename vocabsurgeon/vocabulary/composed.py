"""Types that wrap two models (encoder-decoder, vision-encoder-decoder): the inner models' facts, renamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.vocabulary.families import Family, VocabTensor, family_for

_WRAPPERS = ("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder")
_DECODER, _ENCODER = "decoder", "encoder"


def composed_family(config: Config) -> Family | None:
    """The facts of a wrapper's decoder, with an encoder's own table beside them; None for any other model type.

    The decoder's own config level holds the flag and the size; keys are those of the inner models below
    `decoder.` and `encoder.` (transformers' modeling_encoder_decoder and its kin).
    """
    if config.model_type not in _WRAPPERS:
        return None
    decoder = _inner(config.levels.get((_DECODER,), {}), headed=True)
    if decoder is None:
        return None
    encoder = _inner(config.levels.get((_ENCODER,), {}), headed=False)
    table = (VocabTensor(f"{_ENCODER}.{encoder.input_key}", 0),) if encoder else ()
    return replace(
        decoder,
        model_type=config.model_type,
        architecture=config.architecture or decoder.architecture,
        input_key=_below(decoder.input_key),
        output_key=_below(decoder.output_key) if decoder.output_key else None,
        output_bias=tuple(VocabTensor(_below(tensor.key), tensor.axis) for tensor in decoder.output_bias),
        others=(*(VocabTensor(_below(tensor.key), tensor.axis) for tensor in decoder.others), *table),
        also={_below(key): tuple(map(_below, names)) for key, names in decoder.also.items()},
        shared=tuple(tuple(map(_below, group)) for group in decoder.shared),
        shared_if_tied=tuple(tuple(map(_below, group)) for group in decoder.shared_if_tied),
        tie_level="text" if decoder.tie_level == "root" else decoder.tie_level,
        nested=(_DECODER,),
        text_default=decoder.root_default,
        base_model_prefix="",
    )


def _inner(level: Mapping[str, Any], headed: bool) -> Family | None:
    model_type = level.get("model_type")
    if not isinstance(model_type, str):
        return None
    return family_for(model_type, None if headed else "Model")


def _below(key: str) -> str:
    return f"{_DECODER}.{key}"
