"""Tying where something does not fit: narrow types, short probes, biases that nobody reads, heads that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from tests.cases.stock import bert, roberta
from tests.cli.runner import vocabsurgeon
from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import HEAD, INPUT, taken, tensors_of, with_config, with_tensors

SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def _untied(folder: Path) -> Path:
    return taken(folder, tied=False)


def test_a_mean_that_overflows_its_type_is_refused(tmp_path: Path) -> None:
    source = with_tensors(
        _untied(tmp_path / "source"),
        lambda tensors: tensors.update({INPUT: tensors[INPUT].half(), HEAD: tensors[HEAD] * 1e7}),
    )
    ran = vocabsurgeon("tie", source, tmp_path / "out", "--keep", "mean", "--allow-lossy", "--no-probe")
    assert ran.code == 2 and "infinite" in ran.line


def test_a_probe_of_single_words_is_too_little(tmp_path: Path) -> None:
    (tmp_path / "probe").write_text("w1")
    ran = vocabsurgeon("tie", _untied(tmp_path / "source"), tmp_path / "out", "--probe", tmp_path / "probe")
    assert ran.code == 1 and not (tmp_path / "out").exists()


def test_random_ids_do_not_meet_a_bound(tmp_path: Path) -> None:
    source = _untied(tmp_path / "source")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (source / name).unlink()
    ran = vocabsurgeon("tie", source, tmp_path / "out", "--max-kl", "1000")
    assert ran.code == 1 and "random ids" in ran.line and not (tmp_path / "out").exists()


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    options = ("--keep", "input", "--allow-lossy", "--no-probe", "--json")
    document = vocabsurgeon("tie", _untied(tmp_path / "source"), tmp_path / "out", *options).document
    assert "cost not measured" in document["notes"] and document["cost"] is None


def test_a_refusal_tells_how_far_the_tables_are_apart(tmp_path: Path) -> None:
    document = vocabsurgeon("tie", _untied(tmp_path / "source"), tmp_path / "out", "--no-probe", "--json").document
    assert document["tie"]["comparison"]["equal_rows"] == 0


def test_noise_is_not_called_rounding(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[HEAD] = tensors[INPUT] * (1 + 1e-5 * torch.randn_like(tensors[INPUT]))

    source = with_tensors(_untied(tmp_path / "source"), change)
    comparison = vocabsurgeon("inspect", source, "--compare", "--json").document["tie"]["comparison"]
    assert comparison["rounding"] is None and comparison["likeness"] == "near"


def test_a_cast_down_and_up_is_called_rounding(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[HEAD] = tensors[INPUT].bfloat16().float()

    source = with_tensors(_untied(tmp_path / "source"), change)
    comparison = vocabsurgeon("inspect", source, "--compare", "--json").document["tie"]["comparison"]
    assert comparison["rounding"] == "bfloat16"


@pytest.mark.parametrize(("make", "bias"), [(bert, "cls.predictions.bias"), (roberta, "lm_head.bias")])
def test_the_bias_that_an_untied_class_does_not_read_is_no_hindrance(make: object, bias: str, tmp_path: Path) -> None:
    source = make(tmp_path / "source")  # type: ignore[operator]
    assert not torch.equal(tensors_of(source)[bias], torch.arange(32.0))
    options = ("--keep", "input", "--allow-lossy", "--no-probe")
    assert vocabsurgeon("tie", source, tmp_path / "out", *options).code == 0
    model, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert torch.equal(model.get_output_embeddings().bias, torch.arange(32.0))


@pytest.mark.parametrize("tied", [True, False])
def test_a_class_that_multiplies_by_its_table_is_tied(tied: bool, tmp_path: Path) -> None:
    config = transformers.DebertaV2Config(vocab_size=32, **SMALL, legacy=False, tie_word_embeddings=tied)
    model = transformers.DebertaV2ForMaskedLM(config)
    torch.nn.init.normal_(model.lm_predictions.lm_head.bias)
    model.save_pretrained(tmp_path / "source")
    write_tokenizer(tmp_path / "source", 32)
    assert vocabsurgeon("inspect", tmp_path / "source", "--json").document["tie"]["state"] == "tied"
    assert vocabsurgeon("untie", tmp_path / "source", tmp_path / "apart").code == 2
    assert vocabsurgeon("extend", tmp_path / "source", tmp_path / "out", "--token", "<a>").code == 0
    ids = torch.tensor([[3, 5, 9]])
    again = transformers.DebertaV2ForMaskedLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        assert torch.equal(model.eval()(ids).logits, again(ids).logits[..., :32])


def test_a_conflict_says_how_far_apart_its_tables_are(tmp_path: Path) -> None:
    source = with_config(_untied(tmp_path / "source"), tie_word_embeddings=True)
    document = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>", "--json").document
    assert any("max abs difference" in note for note in document["notes"])
