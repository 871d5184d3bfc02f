"""Prompts stay within the table, hold its last rows, and are real text where there is a tokenizer that knows some."""

from __future__ import annotations

import json
from pathlib import Path

from tests.models.tiny import build
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.prompts import TEXTS, prompts


def test_without_known_words_random_and_highest_ids_stand_alone(tmp_path: Path) -> None:
    source = Checkpoint.open(build("llama", tmp_path / "c"))
    chosen = prompts(source, 64)
    assert list(chosen) == ["highest ids", "random 0", "random 1"]
    assert chosen["highest ids"] == list(range(63, 47, -1))
    assert all(0 <= i < 64 for ids in chosen.values() for i in ids)
    assert prompts(source, 64) == chosen


def test_text_is_encoded_and_ids_without_a_row_are_left_out(tmp_path: Path) -> None:
    folder = build("llama", tmp_path / "c")
    document = json.loads((folder / "tokenizer.json").read_text())
    words = dict.fromkeys(word for text in TEXTS for word in text.split())
    document["model"]["vocab"] = {"<unk>": 0} | {word: i + 1 for i, word in enumerate(words)}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    chosen = prompts(Checkpoint.open(folder), 12)
    assert "text 0" in chosen
    assert max(i for ids in chosen.values() for i in ids) == 11


def test_prompts_are_cut_to_what_the_model_takes(tmp_path: Path) -> None:
    source = Checkpoint.open(build("llama", tmp_path / "c"))
    assert max(map(len, prompts(source, 64, 5).values())) == 5


def test_a_broken_tokenizer_does_not_stop_the_comparison(tmp_path: Path) -> None:
    folder = build("llama", tmp_path / "c")
    (folder / "tokenizer.json").write_text("{}")
    assert len(prompts(Checkpoint.open(folder), 64)) == 3
