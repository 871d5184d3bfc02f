"""Classes that make more than two tables one: all change along, none is lost unseen, and the cost is the result's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.surgery.lossy.pairs import described, kept
from tests.surgery.shelf import Tensors, tensors_of, with_config, with_tensors
from vocabsurgeon.surgery.cost.two_tables import load_two_tables
from vocabsurgeon.surgery.lossy.candidates import candidates
from vocabsurgeon.surgery.lossy.request import Keep, TieRequest
from vocabsurgeon.surgery.lossy.weigh import weigh
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.run import tie
from vocabsurgeon.surgery.tie import plan_tie


def _bart(target: Path) -> Path:
    """Four tables that the class makes one where they are tied; all stored, the head apart."""
    from transformers import BartConfig, BartForConditionalGeneration

    sizes = {"vocab_size": 64, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    BartForConditionalGeneration(BartConfig(**sizes, **heads, tie_word_embeddings=False)).save_pretrained(target)
    return target


TWINS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


def test_tables_that_hold_the_same_as_the_input_embedding_change_along(tmp_path: Path) -> None:
    source = _bart(tmp_path / "source")
    shared = "model.shared.weight"
    with_tensors(source, lambda tensors: tensors.update({key: tensors[shared].clone() for key in TWINS}))
    request = TieRequest("output", allow_lossy=True, probe=False)
    found = weigh(described(source), request, lossy=True)
    assert set(found.twins) == set(TWINS) and not found.apart
    plan = plan_tie(described(source), request, found)
    assert isinstance(plan, Plan)
    edits = {type(edit).__name__: set() for edit in plan.tensor_edits}  # type: ignore[var-annotated]
    for edit in plan.tensor_edits:
        edits[type(edit).__name__].add(edit.key)
    assert edits == {"ReplaceTensor": {shared}, "DropTensor": {"lm_head.weight", *TWINS}}


def test_a_further_table_that_would_be_lost_as_well_is_a_refusal(tmp_path: Path) -> None:
    source = _bart(tmp_path / "source")
    request = TieRequest("input", allow_lossy=True, probe=False)
    refusal = plan_tie(described(source), request, weigh(described(source), request, lossy=True))
    assert isinstance(refusal, Refusal) and refusal.exit_code == 1
    assert all(key in refusal.reason for key in TWINS)


def _with_twins(target: Path) -> Path:
    def share(tensors: Tensors) -> None:
        tensors.update({key: tensors["model.shared.weight"].clone() for key in TWINS})

    return with_tensors(_bart(target), share)


def _logits(model: torch.nn.Module) -> torch.Tensor:
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=ids, decoder_input_ids=ids).logits
    return found


@pytest.mark.parametrize("keep", ["input", "output", "mean"])
def test_what_is_measured_is_what_is_written(keep: Keep, tmp_path: Path) -> None:
    from transformers import BartForConditionalGeneration

    source = _with_twins(tmp_path / "source")
    [candidate] = candidates(described(source), TieRequest(keep))
    tables = load_two_tables(described(source))
    before = _logits(tables.model)
    with tables.candidate(candidate, {keep: tables.table(candidate)}):
        measured = _logits(tables.model)
    assert torch.equal(_logits(tables.model), before)
    kept(source, tmp_path / "out", keep)
    model = BartForConditionalGeneration.from_pretrained(tmp_path / "out").eval()
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight
    assert torch.equal(_logits(model), measured) and not torch.equal(measured, before)


def test_an_equal_pair_is_not_tied_over_a_third_table_that_differs(tmp_path: Path) -> None:
    source = _bart(tmp_path / "source")
    with_tensors(source, lambda tensors: tensors.update({"lm_head.weight": tensors["model.shared.weight"].clone()}))
    refusal = tie(source, tmp_path / "out")
    assert isinstance(refusal, Refusal) and refusal.exit_code == 1 and all(key in refusal.reason for key in TWINS)


def test_of_biases_that_the_class_makes_one_the_heads_own_stays(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    source = tmp_path / "source"
    BertForMaskedLM(BertConfig(**sizes, num_attention_heads=2, tie_word_embeddings=False)).save_pretrained(source)
    tensors = tensors_of(source)
    head = next(key for key in tensors if key.endswith("decoder.weight"))
    biases = [key for key in tensors if key in ("cls.predictions.bias", "cls.predictions.decoder.bias")]
    assert len(biases) == 2

    def edit(tensors: Tensors) -> None:
        tensors[head] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors[biases[0]] = torch.ones(64)

    report = tie(with_config(with_tensors(source, edit), tie_word_embeddings=False), tmp_path / "out")
    assert not isinstance(report, Refusal) and report.passed
    kept = {key for key in tensors_of(tmp_path / "out") if key in biases}
    assert kept == {"cls.predictions.decoder.bias"}  # the one that an untied class reads
