"""Files whose tables contradict each other, or the config, beyond the plain pair: found, and refused or repaired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.cli.runner import vocabsurgeon
from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import Tensors, config_of, contents, taken, tensors_of, with_config, with_tensors

ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"


def _bart(folder: Path, change: Callable[[Tensors], Any] = lambda tensors: None, tied: bool = False) -> Path:
    torch.manual_seed(0)
    small = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    small |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 32}
    small |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": 2}
    config = transformers.BartConfig(**small, decoder_start_token_id=2, tie_word_embeddings=tied)
    transformers.BartForConditionalGeneration(config).save_pretrained(folder)
    write_tokenizer(folder, 32)
    return with_tensors(folder, change)


def _loaded(folder: Path) -> Any:
    model, info = transformers.BartForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def _state(folder: Path) -> str:
    state: str = vocabsurgeon("inspect", folder, "--json").document["tie"]["state"]
    return state


def _old_style(tensors: Tensors) -> None:
    """transformers 4.57 stores these two of the four tables of an untied model."""
    for key in (ENCODER, DECODER):
        tensors[key].copy_(tensors["model.shared.weight"])
        del tensors[key]


def test_tables_that_only_older_readers_share_are_told_and_stored_by_untie(tmp_path: Path) -> None:
    source = _bart(tmp_path / "source", _old_style)
    assert any(ENCODER in line for line in vocabsurgeon("inspect", source, "--json").document["tie"]["evidence"])
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and ENCODER in ran.line and "`vocabsurgeon untie` first" in ran.line
    assert vocabsurgeon("untie", source, tmp_path / "apart").code == 0
    shared = tensors_of(source)["model.shared.weight"]
    assert all(torch.equal(tensors_of(tmp_path / "apart")[key], shared) for key in (ENCODER, DECODER))
    _loaded(tmp_path / "apart")
    assert vocabsurgeon("extend", tmp_path / "apart", tmp_path / "out", "--token", "<a>").code == 0
    _loaded(tmp_path / "out")


def test_any_table_of_the_group_that_differs_is_a_conflict(tmp_path: Path) -> None:
    def change(tensors: Tensors) -> None:
        tensors[ENCODER] = torch.randn(32, 16)

    source = _bart(tmp_path / "source", change, tied=True)
    document = vocabsurgeon("inspect", source, "--json").document
    assert document["tie"]["state"] == "conflict"
    assert not any(ENCODER in group for group in document["sharing"])
    assert vocabsurgeon("tie", source, tmp_path / "out").code == 1
    assert vocabsurgeon("untie", source, tmp_path / "apart").code == 0
    assert config_of(tmp_path / "apart")["tie_word_embeddings"] is False
    before, after = tensors_of(source), _loaded(tmp_path / "apart")
    assert torch.equal(after.model.encoder.embed_tokens.weight, before[ENCODER])
    assert torch.equal(after.lm_head.weight, before["model.shared.weight"])


@pytest.mark.parametrize("bias", [torch.zeros(1, 31), torch.zeros(32)], ids=["short", "flat"])
def test_a_logits_bias_that_does_not_fit_is_refused(bias: torch.Tensor, tmp_path: Path) -> None:
    source = _bart(tmp_path / "source", lambda tensors: tensors.update(final_logits_bias=bias))
    for command in ("untie", "tie"):
        assert vocabsurgeon(command, source, tmp_path / "out").code == 2
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and "final_logits_bias" in ran.line


def test_a_table_of_the_group_with_more_rows_is_a_mismatch(tmp_path: Path) -> None:
    source = _bart(tmp_path / "source", lambda tensors: tensors.update({ENCODER: torch.randn(34, 16)}), tied=True)
    assert _state(source) == "row-mismatch"


def test_a_head_without_an_input_table_is_no_tied_pair(tmp_path: Path) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    small |= {"conv_dim": [16], "conv_stride": [4], "conv_kernel": [4], "num_feat_extract_layers": 1}
    config = transformers.Wav2Vec2Config(
        vocab_size=32, num_conv_pos_embedding_groups=2, num_conv_pos_embeddings=4, **small
    )
    transformers.Wav2Vec2ForCTC(config).save_pretrained(tmp_path / "source")
    write_tokenizer(tmp_path / "source", 32)
    for command in (("inspect",), ("extend", "--token", "<a>")):
        out = [tmp_path / "out"] if len(command) > 1 else []
        ran = vocabsurgeon(command[0], tmp_path / "source", *out, *command[1:])
        assert ran.code == 2 and "lm_head.weight" in ran.line


@pytest.mark.parametrize("name", ["XLMRobertaForSequenceClassification", "XLMRobertaForTokenClassification"])
def test_a_classifier_has_no_lm_head_whatever_its_model_is_called(name: str, tmp_path: Path) -> None:
    small = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.XLMRobertaConfig(**small, intermediate_size=32, pad_token_id=1)
    getattr(transformers, name)(config).save_pretrained(tmp_path / "source")
    write_tokenizer(tmp_path / "source", 32)
    assert _state(tmp_path / "source") == "no-head"
    assert vocabsurgeon("extend", tmp_path / "source", tmp_path / "out", "--token", "<a>").code == 0


def test_the_bias_beside_an_unknown_types_head_grows(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    with_tensors(source, lambda tensors: tensors.update({"lm_head.bias": torch.arange(64.0)}))
    with_config(source, model_type="unheard", architectures=["UnheardForCausalLM"])
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "w3 w5").code == 0
    bias = tensors_of(tmp_path / "out")["lm_head.bias"]
    assert bias.shape == (65,) and bias[64] == 4.0


@pytest.mark.parametrize("key", ["pad_token_id", "eos_token_id", "image_token_index"])
def test_an_id_that_the_config_names_is_not_handed_out_by_accident(key: str, tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), **{key: [2, 64] if key == "eos_token_id" else 64})
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and key in ran.line and "64" in ran.line
    meant = {"pad_token_id": "<pad>", "eos_token_id": "<|eos|>", "image_token_index": "<image>"}[key]
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", meant).code == 0


def test_idefics_image_tokens_are_not_moved(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="idefics", architectures=["IdeficsForVisionText2Text"])
    tail = "model.embed_tokens.additional_embedding.weight"
    with_tensors(source, lambda tensors: tensors.update({tail: torch.zeros(2, 16)}))
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and tail in ran.line


def test_levels_that_disagree_are_made_one(tmp_path: Path) -> None:
    from tests.models.nested import build_nested

    source = build_nested("gemma3", tmp_path / "source", tied=False)
    text = {**config_of(source)["text_config"], "tie_word_embeddings": True}
    with_config(source, tie_word_embeddings=False, text_config=text)
    assert _state(source) == "untied"
    assert vocabsurgeon("untie", source, tmp_path / "out").code == 0
    assert config_of(tmp_path / "out")["text_config"]["tie_word_embeddings"] is False
    assert contents(source)["model.safetensors"] == contents(tmp_path / "out")["model.safetensors"]


def test_one_key_for_both_tables_is_bad_usage(tmp_path: Path) -> None:
    key = "model.embed_tokens.weight"
    ran = vocabsurgeon("untie", taken(tmp_path / "s"), tmp_path / "out", "--input-key", key, "--output-key", key)
    assert ran.code == 2 and "both name" in ran.line


def test_an_adaptive_softmax_is_no_table(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="xlm", asm=True, architectures=["XLMWithLMHeadModel"])
    ran = vocabsurgeon("inspect", source)
    assert ran.code == 2 and "adaptive softmax" in ran.line


def test_a_size_under_an_unknown_name_is_not_left_behind(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="unheard", vocab_size=None, n_tokens=64)
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and "n_tokens = 64" in ran.line
