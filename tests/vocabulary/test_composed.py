"""Types that wrap two models: the inner models' keys below `decoder.` and `encoder.`."""

from __future__ import annotations

import json

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.vocabulary.composed import composed_family
from vocabsurgeon.vocabulary.families import VocabTensor


def _config(**values: object) -> Config:
    return Config.parse(json.dumps(values))


def test_the_decoder_decides_and_the_encoder_adds_its_table() -> None:
    inner = {"encoder": {"model_type": "bert"}, "decoder": {"model_type": "bert"}}
    family = composed_family(_config(model_type="encoder-decoder", **inner))
    assert family is not None
    assert family.input_key == "decoder.bert.embeddings.word_embeddings.weight"
    assert family.output_key == "decoder.cls.predictions.decoder.weight"
    assert VocabTensor("encoder.embeddings.word_embeddings.weight", 0) in family.others
    assert family.declares({("decoder",): False}) is False and family.declares({(): False}) is True


def test_an_encoder_without_words_adds_nothing() -> None:
    inner = {"encoder": {"model_type": "vit"}, "decoder": {"model_type": "bert"}}
    family = composed_family(_config(model_type="vision-encoder-decoder", **inner))
    assert family is not None and family.others == ()


def test_any_other_type_and_an_unknown_decoder_are_left_to_others() -> None:
    assert composed_family(_config(model_type="bart", decoder={"model_type": "bert"})) is None
    assert composed_family(_config(model_type="encoder-decoder", decoder={"model_type": "what"})) is None
    assert composed_family(_config(model_type="encoder-decoder")) is None
