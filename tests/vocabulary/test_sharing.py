"""Which keys are one parameter, and what untying has to store."""

from __future__ import annotations

import pytest

from vocabsurgeon.vocabulary.families import family_for
from vocabsurgeon.vocabulary.sharing import Sharing, sharing_of

BART = (
    "lm_head.weight",
    "model.decoder.embed_tokens.weight",
    "model.encoder.embed_tokens.weight",
    "model.shared.weight",
)


def _sharing(model_type: str, architecture: str) -> Sharing:
    family = family_for(model_type, architecture)
    assert family is not None
    return sharing_of(family, str, family.input_key, family.output_key)


def test_input_and_head_are_a_pair_where_the_table_says_nothing_else() -> None:
    found = _sharing("llama", "LlamaForCausalLM")
    assert found == Sharing((), (("model.embed_tokens.weight", "lm_head.weight"),))
    assert found.groups(tied=False) == ()


def test_a_class_that_never_ties_shares_nothing() -> None:
    assert _sharing("cpmant", "CpmAntForCausalLM") == Sharing((), ())


def test_all_four_tables_of_bart_are_one_if_tied_alone() -> None:
    found = _sharing("bart", "BartForConditionalGeneration")
    assert found == Sharing((), (BART,)) and found.with_head("lm_head.weight") == BART


def test_t5_shares_whatever_the_flag_says() -> None:
    found = _sharing("t5", "T5ForConditionalGeneration")
    assert found.always == found.if_tied and len(found.always) == 1


def test_the_head_of_t5gemma_is_paired_with_the_decoders_table() -> None:
    found = _sharing("t5gemma", "T5GemmaForConditionalGeneration")
    assert found.with_head("lm_head.out_proj.weight") == (
        "lm_head.out_proj.weight",
        "model.decoder.embed_tokens.weight",
    )


@pytest.mark.parametrize("stored", ["model.shared.weight", "lm_head.weight"])
def test_untying_stores_every_table_that_was_only_a_name(stored: str) -> None:
    copies = _sharing("bart", "BartForConditionalGeneration").untied_copies({stored})
    assert set(copies) == {(key, stored) for key in BART if key != stored}


def test_untying_copies_nothing_that_stays_shared() -> None:
    always = (("a", "b"),)
    assert Sharing(always, (("a", "b", "head"),)).untied_copies({"a"}) == (("head", "a"),)
    assert Sharing(always, (("a", "b", "head"),)).untied_copies({"head"}) == (("a", "head"),)


def test_untying_copies_linked_biases_too() -> None:
    copies = _sharing("bert", "BertForMaskedLM").untied_copies(
        {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"}
    )
    assert ("cls.predictions.decoder.bias", "cls.predictions.bias") in copies and len(copies) == 2


def test_named_keys_are_a_pair_of_their_own() -> None:
    assert sharing_of(None, str, "x", "y", named=True) == Sharing((), (("x", "y"),))
    assert sharing_of(None, str, "x", None) == Sharing((), ())
