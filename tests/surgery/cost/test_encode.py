"""Text as ids: the tokenizer's own special tokens around every chunk, and nothing that has no row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.tiny import wordlevel_tokenizer
from tests.surgery.shelf import shelved, taken
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.cost import encode as module
from vocabsurgeon.surgery.cost.encode import encode
from vocabsurgeon.surgery.cost.probe import Probe


def _probe(*passages: str) -> Probe:
    return Probe(passages, tuple(passages[:3]), "test")


def _words(*numbers: int) -> str:
    return " ".join(f"w{number}" for number in numbers)


def test_long_passages_are_cut_into_parts_of_nearly_equal_length() -> None:
    source = Checkpoint.open(shelved(tied=False))
    told = encode(source, _probe(_words(*range(1, 62)), _words(3, 1, 4, 1)), 64, 25)
    assert [len(chunk) for chunk in told.chunks] == [20, 20, 21, 4]
    assert [number for chunk in told.chunks for number in chunk] == [*range(1, 62), 3, 1, 4, 1]
    assert told.tokens == 65 and not told.random


def test_special_tokens_go_around_every_chunk_and_before_prompts(tmp_path: Path) -> None:
    folder = taken(tmp_path / "model", tied=False)
    document = wordlevel_tokenizer(64)
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "w1", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "w2", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {w: {"id": w, "ids": [int(w[1:])], "tokens": [w]} for w in ("w1", "w2")},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    told = encode(Checkpoint.open(folder), _probe(_words(*range(10, 30)), _words(40, 41, 42, 43, 44)), 64, 12)
    assert all(chunk[0] == 1 and chunk[-1] == 2 and len(chunk) <= 12 for chunk in told.chunks)
    assert told.prompts == ((1, *range(10, 15)), (1, 40, 41, 42, 43, 44))


def test_ids_without_a_row_are_left_out() -> None:
    told = encode(Checkpoint.open(shelved(tied=False)), _probe(_words(1, 60, 2, 61, 3, 4)), 60, 64)
    assert told.chunks == ((1, 2, 3, 4),)


def test_a_long_probe_ends_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOKENS", 10)
    told = encode(Checkpoint.open(shelved(tied=False)), _probe(*[_words(1, 2, 3, 4)] * 5), 64, 64)
    assert told.tokens == 8 and told.notes == ("measured on the first 8 tokens of the probe",)


def test_a_tokenizer_that_knows_no_word_gives_way_to_random_ids_that_are_the_same_each_time() -> None:
    source = Checkpoint.open(shelved(tied=False))
    told, again = (encode(source, Probe.builtin(), 64, 64) for _ in range(2))
    assert told.random and told.chunks == again.chunks
    assert all(0 <= number < 64 for chunk in told.chunks for number in chunk)
    assert told.text((5, 6)) == "5 6" and len(set(map(len, told.prompts))) == 1


def test_a_damaged_tokenizer_gives_way_to_random_ids(tmp_path: Path) -> None:
    folder = taken(tmp_path / "model", tied=False)
    document = wordlevel_tokenizer(64)
    document["model"]["type"] = "NoSuchModel"
    (folder / "tokenizer.json").write_text(json.dumps(document))
    told = encode(Checkpoint.open(folder), _probe(_words(1, 2, 3, 4)), 64, 64)
    assert told.random and "does not load the tokenizer" in told.notes[0]
