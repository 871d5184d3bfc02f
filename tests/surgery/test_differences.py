"""`verify` names what another tool did to the tables, the biases and the names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases.stock import bert
from tests.cli.runner import vocabsurgeon
from tests.models.tiny import VOCAB, build
from tests.surgery.shelf import HEAD, INPUT, Tensors, shelved, taken, with_config, with_tensors
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.renames import find_renames, with_names
from vocabsurgeon.surgery.verify import verify
from vocabsurgeon.vocabulary.tie_state import TieState

Change = Callable[[Tensors], Any]


def _random(tensors: Tensors) -> None:
    tensors[HEAD] = torch.randn(tensors[INPUT].shape, generator=torch.Generator().manual_seed(5))


NAMED: dict[str, tuple[TieState, Change, dict[str, Any], str]] = {
    "a few rows": (
        TieState.UNTIED,
        lambda tensors: tensors[HEAD][3:8:4].neg_(),
        {},
        "lm_head.weight: old row changed: 3 'w3', 7 'w7'",
    ),
    "a new head": (TieState.UNTIED, _random, {}, "head replaced: lm_head.weight: 64 of 64 old rows differ"),
    "the input as head": (
        TieState.UNTIED,
        lambda tensors: tensors.update({HEAD: tensors[INPUT].clone()}),
        {},
        "head replaced: lm_head.weight: 64 of 64 old rows differ, and equals the input embedding now",
    ),
    "a new input": (
        TieState.UNTIED,
        lambda tensors: tensors[INPUT].neg_(),
        {},
        "input embedding replaced: model.embed_tokens.weight: 64 of 64 old rows differ",
    ),
    "a dropped head": (
        TieState.UNTIED,
        lambda tensors: tensors.pop(HEAD),
        {},
        "head dropped: lm_head.weight, a table of its own; the head is random at every load",
    ),
    "a dropped head, tied": (
        TieState.UNTIED,
        lambda tensors: tensors.pop(HEAD),
        {"tie_word_embeddings": True},
        "head dropped: lm_head.weight, a table of its own; the input embedding takes its place",
    ),
    "a dropped copy": (
        TieState.UNTIED_EQUAL,
        lambda tensors: tensors.pop(HEAD),
        {},
        "head dropped: lm_head.weight, a copy of the input embedding; the head is random at every load",
    ),
    "the flag alone": (
        TieState.TIED,
        lambda tensors: None,
        {"tie_word_embeddings": False},
        "head lost: declared untied now, and none is stored: it is random at every load",
    ),
    "a stored copy": (
        TieState.TIED,
        lambda tensors: tensors.update({HEAD: tensors[INPUT].clone()}),
        {"tie_word_embeddings": False},
        "head new: lm_head.weight, a copy of the input embedding",
    ),
    "another head than the tied one": (
        TieState.TIED,
        _random,
        {"tie_word_embeddings": False},
        "head replaced: lm_head.weight differs from the input embedding, which was the head",
    ),
    "a made-up head": (
        TieState.HEADLESS,
        _random,
        {},
        "random head stored: lm_head.weight is in no file of the source; what it holds was made up at a load",
    ),
    "cut rows": (
        TieState.TIED,
        lambda tensors: tensors.update({INPUT: tensors[INPUT][:62]}),
        {"vocab_size": 62},
        "rows lost: model.embed_tokens.weight has 62 of 64 rows: 62 'w62', 63 'w63'",
    ),
    "a config value": (
        TieState.TIED,
        lambda tensors: None,
        {"rope_theta": 5.0},
        "config.json: rope_theta: absent → 5.0",
    ),
    "a norm": (
        TieState.TIED,
        lambda tensors: tensors["model.norm.weight"].neg_(),
        {},
        "values changed: model.norm.weight",
    ),
    "a dtype": (
        TieState.TIED,
        lambda tensors: tensors.update({INPUT: tensors[INPUT].bfloat16()}),
        {},
        "dtype changed: model.embed_tokens.weight F32 → BF16",
    ),
}


@pytest.mark.parametrize(("state", "change", "config", "told"), NAMED.values(), ids=list(NAMED))
def test_each_change_is_named(
    state: TieState, change: Change, config: dict[str, Any], told: str, tmp_path: Path
) -> None:
    source, after = in_state(state, tmp_path / "source"), in_state(state, tmp_path / "after")
    with_config(with_tensors(after, change), **config)
    changes = verify(source, after).changes
    assert told in changes, changes


@pytest.mark.parametrize("off", [0, 2])
def test_a_rounded_table_is_told_apart_from_a_changed_one(off: int, tmp_path: Path) -> None:
    def change(tensors: Tensors) -> None:
        tensors[INPUT] = tensors[INPUT].bfloat16()
        tensors[INPUT][:off] += 1

    changes = verify(shelved(), with_tensors(taken(tmp_path / "after"), change)).changes
    told = [line for line in changes if "old row changed" in line]
    assert told == ([f"{INPUT}: old row changed (beyond rounding to BF16): 0 '<unk>', 1 'w1'"] if off else [])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tensors: tensors["cls.predictions.decoder.bias"].zero_(), "output bias zeroed: {}, up to 31"),
        (lambda tensors: tensors.pop("cls.predictions.decoder.bias"), "output bias lost: {}, up to 31"),
    ],
    ids=["zeroed", "lost"],
)
def test_an_output_bias_is_told(change: Change, told: str, tmp_path: Path) -> None:
    source, after = bert(tmp_path / "source"), with_tensors(bert(tmp_path / "after"), change)
    report = verify(source, after)
    assert told.format("cls.predictions.decoder.bias") in report.changes and not report.passed


def test_text_that_splits_anew_is_told(tmp_path: Path) -> None:
    import json

    after = taken(tmp_path / "after")
    document = json.loads((after / "tokenizer.json").read_text())
    document["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    (after / "tokenizer.json").write_text(json.dumps(document))
    report = verify(shelved(), after)
    assert any(line.startswith("text split anew: ") for line in report.changes) and not report.passed


def _with_added(target: Path, *contents: str, special: bool = True) -> Path:
    """What the tokenizers library makes of a tokenizer with tokens added, as stock tools do it."""
    from tokenizers import AddedToken, Tokenizer

    folder = build("llama", target, vocab_size=VOCAB + len(contents))
    tokenizer = Tokenizer.from_file(str(shelved() / "tokenizer.json"))
    added = [AddedToken(content, special=special, normalized=not special) for content in contents]
    (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_markers_that_another_tool_added_do_not_count_as_text_split_anew(tmp_path: Path) -> None:
    after = _with_added(tmp_path / "after", "<|im_start|>", "<|im_end|>")
    report = verify(shelved(), after)
    assert report.proof.by_name["tokenizer_kept"] is True, report.proof.evidence["tokenizer_kept"]
    assert "token new: '<|im_start|>' = 64, '<|im_end|>' = 65" in report.changes


def test_a_word_that_another_tool_added_splits_old_words_anew(tmp_path: Path) -> None:
    report = verify(shelved(), _with_added(tmp_path / "after", "other", special=False))
    assert report.proof.by_name["tokenizer_kept"] is False
    assert any(line.startswith("text split anew: 'The quick") for line in report.changes)


def _prefixed(tensors: Tensors) -> None:
    for key in list(tensors):
        tensors[key.removeprefix("model.")] = tensors.pop(key)


def _other_names(tensors: Tensors) -> None:
    for key in list(tensors):
        if ".layers." in key:
            tensors[key.replace(".layers.", ".blocks.").replace("self_attn", "attn")] = tensors.pop(key)


def _both(tensors: Tensors) -> None:
    _other_names(tensors)
    for key in [key for key in tensors if ".blocks." not in key]:
        tensors[key.removeprefix("model.")] = tensors.pop(key)


@pytest.mark.parametrize("change", [_prefixed, _other_names, _both], ids=["prefix", "other names", "both"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_tensors_under_other_names_are_the_same_tensors(change: Change, tied: bool, tmp_path: Path) -> None:
    source, after = shelved(tied=tied), with_tensors(taken(tmp_path / "after", tied=tied), change)
    report = verify(source, after)
    assert report.passed, report.proof.evidence
    assert [line for line in report.changes if not line.startswith("tensor renamed: ")] == []
    back = verify(after, source)
    assert back.passed and len(back.changes) == 1


def test_a_renamed_tensor_that_changed_is_found(tmp_path: Path) -> None:
    def change(tensors: Tensors) -> None:
        tensors[INPUT][5].neg_()
        _prefixed(tensors)

    report = verify(shelved(), with_tensors(taken(tmp_path / "after"), change))
    assert not report.passed and "embed_tokens.weight: old row changed: 5 'w5'" in report.changes


def test_tensors_of_the_same_bits_are_paired_by_their_names(tmp_path: Path) -> None:
    def zeroed(tensors: Tensors) -> None:
        for key in tensors:
            if "layernorm" in key:
                tensors[key] = torch.zeros_like(tensors[key])

    source = with_tensors(taken(tmp_path / "source"), zeroed)
    after = with_tensors(with_tensors(taken(tmp_path / "after"), zeroed), _other_names)
    names = find_renames(Checkpoint.open(source), Checkpoint.open(after))
    assert names and all(name.split(".")[2:] == _expected(key) for key, name in names.items())


def _expected(key: str) -> list[str]:
    return key.replace("self_attn", "attn").split(".")[2:]


def test_a_view_under_other_names_reads_the_same_bytes() -> None:
    source = Checkpoint.open(shelved())
    view = with_names(source, {INPUT: "other"})
    assert (
        INPUT not in view.tensors
        and view.rows("other").block(0, 4).tobytes() == source.rows(INPUT).block(0, 4).tobytes()
    )


@pytest.mark.parametrize(
    ("state", "after"),
    [
        (TieState.TIED, TieState.TIED_DUPLICATE),
        (TieState.TIED_DUPLICATE, TieState.TIED),
        (TieState.CONFLICT, TieState.UNTIED),
    ],
    ids=str,
)
def test_a_state_that_loses_nothing_passes(state: TieState, after: TieState, tmp_path: Path) -> None:
    report = verify(in_state(state, tmp_path / "source"), in_state(after, tmp_path / "after"))
    assert report.passed, report.proof.evidence


@pytest.mark.parametrize(
    ("state", "after"),
    [(TieState.UNTIED, TieState.CONFLICT), (TieState.TIED, TieState.UNTIED_EQUAL), (TieState.TIED, TieState.HEADLESS)],
    ids=str,
)
def test_a_state_that_changes_what_readers_do_fails(state: TieState, after: TieState, tmp_path: Path) -> None:
    assert not verify(in_state(state, tmp_path / "source"), in_state(after, tmp_path / "after")).passed


def test_keys_can_be_named_where_one_side_alone_stores_them(tmp_path: Path) -> None:
    unknown = {"model_type": "nonesuch", "architectures": ["NonesuchForCausalLM"]}

    def odd(tensors: Tensors) -> None:
        tensors["words"] = tensors.pop(INPUT)

    source = with_config(with_tensors(taken(tmp_path / "source"), odd), **unknown)
    out = tmp_path / "out"
    keys = ("--input-key", "words", "--output-key", HEAD)
    assert vocabsurgeon("untie", source, out, *keys[:2]).code == 0
    (out / "vocabsurgeon.json").unlink()
    assert vocabsurgeon("verify", source, out, "--expect", "untied", *keys).code == 0
    ran = vocabsurgeon("verify", source, out, "--input-key", "nowhere")
    assert ran.code == 2 and "nowhere" in ran.line
