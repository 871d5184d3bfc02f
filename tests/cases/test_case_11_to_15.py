"""CASES.md 11 to 15: nested configs, encoder-decoders, biases."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.cases.sources import extended
from tests.cases.stock import bert, roberta, t5
from tests.models.nested import NESTED, build_nested
from tests.models.tiny import VOCAB, write_tokenizer
from tests.surgery.shelf import bits, config_of, tensors_of, with_json
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.run import tie, untie
from vocabsurgeon.vocabulary.describe import describe

NEW = ("<a>", "<b>", "<c>", "<d>")
PROMPT = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 31, 8, 9]])


def _loaded(cls: Any, folder: Path) -> Any:
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def _logits(model: Any, rows: int) -> np.ndarray[Any, Any]:
    names = inspect.signature(model.forward).parameters
    inputs = {"decoder_input_ids": PROMPT.flip(1)} if "decoder_input_ids" in names else {}
    with torch.no_grad():
        found: np.ndarray[Any, Any] = model(input_ids=PROMPT, **inputs).logits.float().numpy()
    return found[..., :rows]


def _one_storage(model: Any) -> bool:
    head, table = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    return bool(head.data_ptr() == table.data_ptr())


def _state(folder: Path) -> str:
    return str(describe(Checkpoint.open(folder)).tie.state)


def _contradicting(folder: Path, family: str) -> Path:
    """A tied checkpoint whose root says false and whose text_config says true."""
    build_nested(family, folder, tied=True)
    config = config_of(folder)
    text = {**config["text_config"], "tie_word_embeddings": True}
    return with_json(folder / "config.json", tie_word_embeddings=False, text_config=text)


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_case_11_untie_writes_every_level(family: str, tmp_path: Path) -> None:
    source, out = _contradicting(tmp_path / "source", family), tmp_path / "out"
    cls = transformers.AutoModelForImageTextToText
    old = _loaded(cls, source)
    assert _one_storage(old) and _state(source) == "tied"
    report = untie(source, out)
    assert not isinstance(report, Refusal) and report.passed
    config = config_of(out)
    assert config["tie_word_embeddings"] is False and config["text_config"]["tie_word_embeddings"] is False
    new = _loaded(cls, out)
    assert not _one_storage(new) and np.array_equal(_logits(old, VOCAB), _logits(new, VOCAB))


def test_case_11_gemma3_obeys_the_root_alone(tmp_path: Path) -> None:
    source = _contradicting(tmp_path / "source", "gemma3")
    assert _state(source) == "headless"
    report = tie(source, tmp_path / "out")
    assert not isinstance(report, Refusal) and report.passed
    assert _one_storage(_loaded(transformers.AutoModelForImageTextToText, tmp_path / "out"))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", sorted(NESTED))
def test_case_12_the_size_is_right_wherever_it_is_stated(family: str, tied: bool, tmp_path: Path) -> None:
    source, out = build_nested(family, tmp_path / "source", tied=tied), tmp_path / "out"
    cls = transformers.AutoModelForImageTextToText
    old = _loaded(cls, source)
    extended(source, out, *NEW)
    before, after = config_of(source), config_of(out)
    for old_level, level in ((before, after), (before["text_config"], after["text_config"])):
        assert ("vocab_size" in level) == ("vocab_size" in old_level)
        assert level.get("vocab_size", VOCAB + 4) == VOCAB + 4
    new = _loaded(cls, out)
    assert _one_storage(new) is tied and new.get_output_embeddings().weight.shape[0] == VOCAB + 4
    assert np.array_equal(_logits(old, VOCAB), _logits(new, VOCAB))


def test_case_13_t5_keeps_both_tables_its_flag_and_its_scale(tmp_path: Path) -> None:
    source, out = t5(tmp_path / "source"), tmp_path / "out"
    cls = transformers.T5ForConditionalGeneration
    old = _loaded(cls, source)
    extended(source, out, *NEW)
    config = config_of(out)
    assert config["tie_word_embeddings"] is False and config["scale_decoder_outputs"] is False
    new = _loaded(cls, out)
    assert not _one_storage(new) and new.lm_head.weight.shape[0] == 36
    assert np.array_equal(_logits(old, 32), _logits(new, 32))


def test_case_13_the_scale_of_a_tied_t5_survives_a_flag_turned_later(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    settings = {"vocab_size": 32, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    transformers.T5ForConditionalGeneration(transformers.T5Config(**settings)).save_pretrained(source)
    config = config_of(source)
    config.pop("scale_decoder_outputs", None)
    (source / "config.json").write_text(json.dumps(config))
    write_tokenizer(source, 32)
    old = _loaded(transformers.T5ForConditionalGeneration, source)
    extended(source, out, *NEW)
    assert config_of(out)["scale_decoder_outputs"] is True
    with_json(out / "config.json", tie_word_embeddings=False)
    assert np.array_equal(_logits(old, 32), _logits(_loaded(transformers.T5ForConditionalGeneration, out), 32))


@pytest.mark.parametrize("make", [bert, roberta])
def test_case_14_biases_keep_their_entries_and_new_ones_are_means(make: Any, tmp_path: Path) -> None:
    source, out = make(tmp_path / "source"), tmp_path / "out"
    cls = transformers.AutoModelForMaskedLM
    old = _loaded(cls, source)
    rows = old.get_output_embeddings().weight.shape[0]
    report = extended(source, out, "w3 w5")
    new = _loaded(cls, out)
    before, after = old.get_output_embeddings().bias, new.get_output_embeddings().bias
    token = next(token for token in report.to_dict()["tokens"] if token["content"] == "w3 w5")
    assert token["piece_ids"] == [3, 5]
    assert torch.equal(after[:rows], before) and after[token["id"]] == (before[3] + before[5]) / 2
    assert np.array_equal(_logits(old, rows), _logits(new, rows))


_SEQ2SEQ = {
    "bart": (transformers.BartConfig, transformers.BartForConditionalGeneration),
    "mbart": (transformers.MBartConfig, transformers.MBartForConditionalGeneration),
    "marian": (transformers.MarianConfig, transformers.MarianMTModel),
}
_SMALL = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2} | {
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 32,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip


def _seq2seq(family: str, folder: Path, tied: bool) -> Any:
    config, cls = _SEQ2SEQ[family]
    torch.manual_seed(0)
    model = cls(config(**_SMALL, tie_word_embeddings=tied)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.15)
        model.final_logits_bias.copy_(torch.arange(32.0)[None])
    model.save_pretrained(folder)
    write_tokenizer(folder, 32)
    return cls


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", sorted(_SEQ2SEQ))
def test_case_15_the_logits_bias_grows_and_sharing_stays(family: str, tied: bool, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    cls = _seq2seq(family, source, tied)
    old = _loaded(cls, source)
    extended(source, out, "w3 w5")
    bias = tensors_of(out)["final_logits_bias"]
    assert bias.shape == (1, 33) and bias[0, 32] == 4.0
    assert bits(bias[:, :32]) == bits(tensors_of(source)["final_logits_bias"])
    new = _loaded(cls, out)
    tables = [new.model.encoder.embed_tokens.weight, new.model.decoder.embed_tokens.weight, new.lm_head.weight]
    assert {len(table) for table in tables} == {33}
    assert len({table.data_ptr() for table in tables}) == (1 if tied else 3)
    assert np.array_equal(_logits(old, 32), _logits(new, 32))
    groups = describe(Checkpoint.open(out)).to_dict()["sharing"]
    assert [set(group) for group in groups] == ([_group(family)] if tied else [])


def _group(family: str) -> set[str]:
    inner = {f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")}
    return {"lm_head.weight", *inner}


@pytest.mark.parametrize("family", sorted(_SEQ2SEQ))
def test_case_15_untie_and_tie_keep_logits(family: str, tmp_path: Path) -> None:
    source, apart, again = (tmp_path / name for name in ("source", "apart", "again"))
    cls = _seq2seq(family, source, tied=True)
    old = _logits(_loaded(cls, source), 32)
    report = untie(source, apart)
    assert not isinstance(report, Refusal) and report.passed and _state(apart) == "untied-equal"
    assert np.array_equal(old, _logits(_loaded(cls, apart), 32))
    report = tie(apart, again)
    assert not isinstance(report, Refusal) and report.passed and _state(again) == "tied"
    assert np.array_equal(old, _logits(_loaded(cls, again), 32))
    assert sum(file.stat().st_size for file in again.glob("*.safetensors")) < 1.1 * sum(
        file.stat().st_size for file in source.glob("*.safetensors")
    )
