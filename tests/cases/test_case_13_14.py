"""CASES.md 13 and 14, and 1 and 6 beside them: `verify` finds, by name, what stock resize and save made of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases.sources import llama
from tests.cases.stock import bert, resized, roberta, t5
from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import reloaded, with_config

CAUSAL, SEQ2SEQ, MASKED = "AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM"


def _verified(source: Path, out: Path) -> dict[str, Any]:
    """The report of a run that must say no, with and without the logits."""
    plain = vocabsurgeon("verify", source, out, "--json")
    assert plain.code == 1 and plain.document["passed"] is False and plain.document["parity"] is None
    ran = vocabsurgeon("verify", source, out, "--logits", "--json")
    assert ran.code == 1 and ran.document["differences"] == plain.document["differences"]
    document: dict[str, Any] = ran.document
    return document


def _tells(document: dict[str, Any], *wanted: str) -> None:
    for text in wanted:
        assert any(text in line for line in document["differences"]), (text, document["differences"])


def test_case_01_verify_finds_the_spare_rows_that_stock_cuts(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 128, entries=100)
    document = _verified(source, resized(source, tmp_path / "stock", CAUSAL, 102))
    _tells(document, "rows: 128 → 102", "rows lost: model.embed_tokens.weight has 102 of 128 rows: 102, 103")
    _tells(document, "config.json: vocab_size: 128 → 102", "token new: 'w100' = 100, 'w101' = 101")
    assert document["proof"]["old_rows_identical"] is False
    assert document["parity"]["passed"] is True and document["parity"]["max_abs_diff"] == 0


def test_case_06_verify_finds_the_head_that_stock_ties_away(tmp_path: Path) -> None:
    source = with_config(llama(tmp_path / "source", tied=False), tie_word_embeddings=True)
    document = _verified(source, resized(source, tmp_path / "stock", CAUSAL, 40))
    _tells(document, "tie state: conflict → tied", "rows: 32 → 40")
    _tells(document, "head dropped: lm_head.weight, a table of its own; the input embedding takes its place")
    parity = document["parity"]
    assert parity["passed"] is False and parity["max_abs_diff"] > 0.1 and parity["top1_agreement"] < 1


def test_case_13_verify_finds_that_t5_lost_its_head_and_the_flag_turned(tmp_path: Path) -> None:
    source = t5(tmp_path / "source")
    document = _verified(source, resized(source, tmp_path / "stock", SEQ2SEQ, 34))
    _tells(document, "tie state: untied → tied", "config.json: tie_word_embeddings: False → True")
    _tells(document, "head dropped: lm_head.weight, a table of its own; the input embedding takes its place")
    assert document["parity"]["passed"] is False and document["parity"]["max_abs_diff"] > 1


def test_case_14_verify_finds_the_lost_bias_and_the_shift_of_31(tmp_path: Path) -> None:
    source = bert(tmp_path / "source")
    document = _verified(source, resized(source, tmp_path / "stock", MASKED, 34))
    _tells(document, "output bias lost: cls.predictions.decoder.bias, up to 31")
    _tells(document, "cls.predictions.bias: old row changed: 1 'w1', 2 'w2'")
    parity = document["parity"]
    assert parity["passed"] is False and parity["max_abs_diff"] == pytest.approx(31, abs=0.01)
    assert any("cls.predictions.decoder.bias is in no file" in line for line in parity["evidence"])


def test_case_14_verify_finds_that_roberta_does_not_load_again(tmp_path: Path) -> None:
    source = roberta(tmp_path / "source")
    document = _verified(source, resized(source, tmp_path / "stock", MASKED, 34))
    assert document["proof"]["old_rows_identical"] is False
    assert "lm_head.bias is F32 [32], not F32 [34]" in document["proof_evidence"]["old_rows_identical"]
    parity = document["parity"]
    assert parity["passed"] is False and parity["max_abs_diff"] is None
    assert "lm_head.bias is [32] in the file, the class wants [34]" in parity["evidence"][0]


@pytest.mark.parametrize("make", [t5, bert, roberta], ids=lambda make: make.__name__)
def test_cases_13_and_14_our_own_results_pass_with_their_logits(make: Any, tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>", "--token", "<b>").code == 0
    for record in (True, False):
        if not record:
            (tmp_path / "out" / "vocabsurgeon.json").unlink()
        ran = vocabsurgeon("verify", source, tmp_path / "out", "--logits", "--json")
        assert ran.document["parity"]["passed"] is True, ran.document["parity"]
        assert ran.code == 0, ran.document["proof_evidence"]


def test_stock_without_a_fault_passes(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", tied=False)
    out = resized(source, tmp_path / "stock", CAUSAL, 34)
    ran = vocabsurgeon("verify", source, out, "--logits", "--json")
    assert ran.code == 0 and ran.document["parity"]["passed"] is True, ran.document
    assert reloaded(out).config.vocab_size == 34
