"""CASES.md 1 to 5: padded vocabularies. Number 5 on the real model is in tests/real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.cases.sources import INPUT, changed_rows, extended, llama, rows_told, with_tokenizer
from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import contents, reloaded, taken, tensors_of, with_config, with_tensors


def test_case_01_spare_rows_are_used_and_none_is_cut(tmp_path: Path) -> None:
    source, out = llama(tmp_path / "source", 128, entries=100), tmp_path / "out"
    ran = vocabsurgeon("extend", source, out, "--token", "<a>", "--token", "<b>")
    assert ran.code == 0 and "0 rows grown, 2 spare rows re-initialised" in ran.stdout
    assert tensors_of(out)[INPUT].shape == (128, 16)
    model = reloaded(out)
    assert model.config.vocab_size == model.get_input_embeddings().weight.shape[0] == 128


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_case_02_only_the_rows_of_the_new_ids_change(tied: bool, tmp_path: Path) -> None:
    source, out = llama(tmp_path / "source", 128, tied, entries=100), tmp_path / "out"
    sentinels = torch.arange(28.0)[:, None].expand(28, 16) + 1000
    with_tensors(source, lambda tensors: [t[100:].copy_(sentinels) for t in tensors.values() if t.shape == (128, 16)])
    report = extended(source, out, "<a>", "<b>")
    assert rows_told(report) == {
        "rows_before": 128,
        "rows_after": 128,
        "rows_grown": 0,
        "rows_reinitialised": 2,
        "rows_padding": 0,
        "rows_filled": [],
    }
    tables = {key for key, tensor in tensors_of(source).items() if tensor.shape == (128, 16)}
    assert len(tables) == (1 if tied else 2)
    assert {key: changed_rows(source, out, key) for key in tables} == {key: {100, 101} for key in tables}
    assert torch.equal(tensors_of(out)[INPUT][102:], sentinels[2:])
    assert tensors_of(out)[INPUT][100:102].abs().max() < 1000, "a spare row is no part of a mean"


@pytest.mark.parametrize("options", [[], ["--token", "<a>"]], ids=["no token", "a token that exists"])
def test_case_03_nothing_to_add_copies_everything(options: list[str], tmp_path: Path) -> None:
    source, out = llama(tmp_path / "source"), tmp_path / "out"
    extended(source, tmp_path / "one", "<a>")
    for name, content in {"optimizer.pt": b"state", "pytorch_model.bin": b"old", "notes/x.txt": b"hello"}.items():
        (tmp_path / "one" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "one" / name).write_bytes(content)
    ran = vocabsurgeon("extend", tmp_path / "one", out, *options, "--json")
    assert ran.code == 0 and ran.document["changed"] is False and ran.document["files_omitted"] == []
    assert contents(out) == contents(tmp_path / "one") and (out / "vocabsurgeon.json").exists()


def test_case_04_padding_is_told_apart_from_tokens(tmp_path: Path) -> None:
    source, out = llama(tmp_path / "source"), tmp_path / "out"
    with_config(source, text_config={"vocab_size": 32}, vision_config={"vocab_size": 7})
    report = extended(source, out, "<a>", pad_to_multiple_of=16)
    assert rows_told(report) == {
        "rows_before": 32,
        "rows_after": 48,
        "rows_grown": 16,
        "rows_reinitialised": 0,
        "rows_padding": 15,
        "rows_filled": [],
    }
    config = json.loads((out / "config.json").read_text())
    assert (config["vocab_size"], config["text_config"]["vocab_size"]) == (48, 48)
    assert config["vision_config"]["vocab_size"] == 7, "another model's vocabulary"
    assert tensors_of(out)[INPUT].shape == (48, 16)
    again = extended(out, tmp_path / "again", "<a>", pad_to_multiple_of=16)
    assert not again.to_dict()["changed"]


def _without_row(folder: Path) -> Path:
    """Like gemma-3-270m: the tokenizer's last added token has an id behind the table."""
    image = {"id": 32, "content": "<image>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return with_tokenizer(llama(folder), lambda document: document["added_tokens"].append(image | flags))


def test_case_05_an_id_without_a_row_is_told_and_not_handed_out(tmp_path: Path) -> None:
    source, out = _without_row(tmp_path / "source"), tmp_path / "out"
    assert vocabsurgeon("inspect", source, "--json").document["vocabulary"]["ids_without_row"] == [32]
    checked = vocabsurgeon("check", source, "--json")
    assert checked.code == 0 and any("no row" in finding["message"] for finding in checked.document["findings"])
    report = extended(source, out, "<a>", "<b>")
    told = report.to_dict()
    assert [(token["content"], token["id"], token["row"]) for token in told["tokens"]] == [
        ("<a>", 33, 33),
        ("<b>", 34, 34),
    ]
    assert told["rows_filled"] == [32] and told["rows_after"] == 35 and told["rows_padding"] == 0
    assert changed_rows(source, out) == {32, 33, 34}
    assert not extended(source, tmp_path / "unasked").to_dict()["changed"], "the table grows only when it must"


def test_case_05_an_ordinary_id_without_a_row_is_an_error(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 32, entries=34)
    assert vocabsurgeon("check", source).code == 1


def test_taken_copies_are_independent(tmp_path: Path) -> None:
    """The shelf that all tests share is not written into by the fixtures here."""
    one = taken(tmp_path / "one")
    with_config(one, vocab_size=1)
    assert json.loads((taken(tmp_path / "two") / "config.json").read_text())["vocab_size"] == 64
