"""The families table as readers of checkpoints ask it. That its facts are true is tested in tests/families."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from vocabsurgeon.vocabulary.families import (
    Family,
    VocabTensor,
    family_for,
    known_input_keys,
    known_model_types,
    known_output_keys,
)

KEYS = [
    ("llama", "LlamaForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("mistral", "MistralForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("qwen2", "Qwen2ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("qwen3", "Qwen3ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("gemma", "GemmaForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("gemma2", "Gemma2ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("gemma3_text", "Gemma3ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    (
        "gemma3",
        "Gemma3ForConditionalGeneration",
        "language_model.model.embed_tokens.weight",
        "language_model.lm_head.weight",
    ),
    ("gpt2", "GPT2LMHeadModel", "transformer.wte.weight", "lm_head.weight"),
    ("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.embed_in.weight", "embed_out.weight"),
    ("opt", "OPTForCausalLM", "model.decoder.embed_tokens.weight", "lm_head.weight"),
    ("phi", "PhiForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("phi3", "Phi3ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"),
    ("bloom", "BloomForCausalLM", "transformer.word_embeddings.weight", "lm_head.weight"),
    ("falcon", "FalconForCausalLM", "transformer.word_embeddings.weight", "lm_head.weight"),
    ("gptj", "GPTJForCausalLM", "transformer.wte.weight", "lm_head.weight"),
    ("codegen", "CodeGenForCausalLM", "transformer.wte.weight", "lm_head.weight"),
    ("mpt", "MptForCausalLM", "transformer.wte.weight", "lm_head.weight"),
    ("bert", "BertForMaskedLM", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    ("roberta", "RobertaForMaskedLM", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    ("t5", "T5ForConditionalGeneration", "shared.weight", "lm_head.weight"),
    ("bart", "BartForConditionalGeneration", "model.shared.weight", "lm_head.weight"),
    ("mbart", "MBartForConditionalGeneration", "model.shared.weight", "lm_head.weight"),
    ("whisper", "WhisperForConditionalGeneration", "model.decoder.embed_tokens.weight", "proj_out.weight"),
    ("qwen2_vl", "Qwen2VLForConditionalGeneration", "model.embed_tokens.weight", "lm_head.weight"),
    (
        "llava",
        "LlavaForConditionalGeneration",
        "language_model.model.embed_tokens.weight",
        "language_model.lm_head.weight",
    ),
]

BIASES = [
    ("gptj", "GPTJForCausalLM", {"lm_head.bias": 0}),
    ("codegen", "CodeGenForCausalLM", {"lm_head.bias": 0}),
    ("phi", "PhiForCausalLM", {"lm_head.bias": 0}),
    ("bert", "BertForMaskedLM", {"cls.predictions.bias": 0, "cls.predictions.decoder.bias": 0}),
    ("roberta", "RobertaForMaskedLM", {"lm_head.bias": 0, "lm_head.decoder.bias": 0}),
    ("bart", "BartForConditionalGeneration", {"final_logits_bias": 1}),
    ("marian", "MarianMTModel", {"final_logits_bias": 1}),
    ("llama", "LlamaForCausalLM", {}),
]

TIED_BY_DEFAULT = "gemma gemma2 gemma3_text gemma3 gpt2 opt bloom falcon mpt bert roberta t5 bart whisper"
UNTIED_BY_DEFAULT = "llama mistral qwen2 qwen3 gpt_neox phi phi3 gptj codegen llava qwen2_vl nemotron_h"

TEXT = ("text_config",)


def family(model_type: str, architecture: str | None = None) -> Family:
    found = family_for(model_type, architecture)
    assert found is not None
    return found


@pytest.mark.parametrize(("model_type", "architecture", "input_key", "output_key"), KEYS)
def test_the_well_known_classes_name_their_two_tables(
    model_type: str, architecture: str, input_key: str, output_key: str
) -> None:
    found = family(model_type, architecture)
    assert (found.input_key, found.output_key) == (input_key, output_key)
    assert found.source.startswith("transformers 5.") and found.source.endswith(f".{architecture}")
    assert found.size_keys == ("vocab_size",)


@pytest.mark.parametrize(("model_type", "architecture", "biases"), BIASES)
def test_every_bias_over_the_vocabulary_is_named_with_its_axis(
    model_type: str, architecture: str, biases: dict[str, int]
) -> None:
    assert {bias.key: bias.axis for bias in family(model_type, architecture).output_bias} == biases


def test_tensors_beside_tables_and_biases_are_named_too() -> None:
    assert family("gemma4_text").others == (VocabTensor("model.embed_tokens_per_layer.weight", 0),)
    assert family("deepseek_v4").others == (VocabTensor("model.layers.*.ffn.gate.tid2eid", 0),)
    assert VocabTensor("cls.predictions.dense.weight", 1) in family("mobilebert").others


@pytest.mark.parametrize("model_type", TIED_BY_DEFAULT.split())
def test_a_silent_config_declares_tied_where_that_is_the_default_of_its_class(model_type: str) -> None:
    assert family(model_type).tie_default is True


@pytest.mark.parametrize("model_type", UNTIED_BY_DEFAULT.split())
def test_a_silent_config_declares_untied_where_that_is_the_default_of_its_class(model_type: str) -> None:
    assert family(model_type).tie_default is False


@pytest.mark.parametrize(
    ("model_type", "flags", "declared", "obeyed"),
    [
        ("llama", {(): True}, True, [()]),
        ("llama", {TEXT: True}, False, []),
        ("gemma3", {(): False, TEXT: True}, False, [()]),
        ("llava", {(): False, TEXT: True}, True, [(), TEXT]),
        ("llava", {(): True, TEXT: False}, True, [(), TEXT]),
        ("qwen2_vl", {TEXT: True}, True, [TEXT]),
        ("qwen2_vl", {(): False}, False, [()]),
        ("llama4", {(): True, TEXT: False}, False, [TEXT]),
        ("perception_lm", {(): False, TEXT: True}, False, [()]),
        ("perception_lm", {TEXT: True}, True, [TEXT]),
        ("t5", {(): False}, True, []),
        ("nemotron_h", {(): True}, False, []),
    ],
)
def test_flags_are_weighed_as_the_class_weighs_them(
    model_type: str, flags: dict[tuple[str, ...], bool], declared: bool, obeyed: list[tuple[str, ...]]
) -> None:
    found = family(model_type)
    assert found.declares(flags) is declared
    assert list(found.obeyed(flags)) == obeyed


FORCED = {
    "t5": True,
    "mt5": True,
    "umt5": True,
    "longt5": True,
    "udop": True,
    "nemotron_h": False,
    "llama": None,
    "llava": None,
}


@pytest.mark.parametrize(("model_type", "forced"), FORCED.items())
def test_classes_that_overrule_the_flag_say_so(model_type: str, forced: bool | None) -> None:
    assert family(model_type).tie_forced is forced


def test_other_names_of_a_tensor_are_known() -> None:
    assert family("gpt_neox").also == {"embed_out.weight": ("lm_head.weight",)}
    assert "model.language_model.embed_tokens.weight" in family("qwen2_vl").also["model.embed_tokens.weight"]
    assert family("lfm2").flag_keys == ("tie_embedding", "tie_word_embeddings")
    assert family("llama").flag_keys == ("tie_word_embeddings",)


def test_what_else_a_config_takes_from_the_flag_is_known() -> None:
    following = [name for name in known_model_types() if family(name).follow_flag]
    assert following == ["longt5", "pop2piano", "t5", "umt5"]
    assert family("t5").follow_flag == {"scale_decoder_outputs": True}


def test_levels_with_a_vocabulary_of_their_own_are_known() -> None:
    assert family("qwen2_5_omni").elsewhere == (("talker_config",),)
    assert family("gemma3n").elsewhere == (("audio_config",), ("vision_config",))
    assert family("t5gemma").elsewhere == family("blt").elsewhere == family("llama").elsewhere == ()


def test_encoder_decoder_tables_that_are_one_parameter_are_listed() -> None:
    tables = (
        "lm_head.weight",
        "model.decoder.embed_tokens.weight",
        "model.encoder.embed_tokens.weight",
        "model.shared.weight",
    )
    assert family("bart").shared_if_tied == (tables,)
    assert family("bart").shared == ()
    assert len(family("t5").shared[0]) == 4


def test_without_an_architecture_the_best_known_class_with_a_head_is_taken() -> None:
    assert family("llama").architecture == "LlamaForCausalLM"
    assert family("bart").architecture == "BartForConditionalGeneration"
    assert family("clip").output_key is None


def test_an_unknown_class_of_a_known_type_is_judged_by_its_name() -> None:
    assert family("llama", "MyLlamaForCausalLM").output_key == "lm_head.weight"
    assert family("llama", "LlamaForSequenceClassification").output_key is None
    assert family("llama", "LlamaForSequenceClassification").architecture == "LlamaForSequenceClassification"


def test_the_text_model_inside_decides_where_it_may_be_another() -> None:
    over_t5 = family_for("blip-2", "Blip2ForConditionalGeneration", "t5")
    assert over_t5 is not None
    assert (over_t5.model_type, over_t5.input_key) == ("blip-2", "language_model.shared.weight")
    assert family("blip-2").input_key == "language_model.model.decoder.embed_tokens.weight"
    assert family_for("llava", None, "mistral") == family("llava")


def test_an_unknown_type_has_no_row() -> None:
    assert family_for("no-such-model", None) is None
    assert family_for("vit", None) is None


def test_known_names_come_the_most_common_first_and_once() -> None:
    for known, first in ((known_input_keys(), "embed_tokens.weight"), (known_output_keys(), "lm_head.weight")):
        assert known[0] == first
        assert len(set(known)) == len(known)
    assert "model.embed_tokens.weight" in known_input_keys()
    assert "embed_out.weight" in known_output_keys()


def test_every_row_can_be_read() -> None:
    types = known_model_types()
    assert len(types) > 400
    for model_type in types:
        found = family(model_type)
        assert found.input_key and found.size_keys
        assert (found.output_key is None) == (found.tie_level == "")


def test_a_family_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        family("llama").input_key = "x"  # type: ignore[misc]


def test_the_table_is_read_at_the_first_question_and_with_the_standard_library_alone() -> None:
    program = (
        "import sys, vocabsurgeon.vocabulary.families as f\n"
        "assert f._table.cache_info().currsize == 0\n"
        "f.family_for('llama', None)\n"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
