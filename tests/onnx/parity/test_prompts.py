"""Prompts stay within the table, hold its last rows, and are real text where there is a tokenizer that knows some."""

from __future__ import annotations

import json
from pathlib import Path

from tests.models.tiny import build
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.parity.prompts import TEXTS, prompts


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


def test_added_tokens_below_padding_are_a_prompt_of_their_own(tmp_path: Path) -> None:
    folder = build("llama", tmp_path / "c")
    document = json.loads((folder / "tokenizer.json").read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document["model"]["vocab"] = {token: i for token, i in document["model"]["vocab"].items() if i < 20}
    document["added_tokens"] = [flags | {"id": i, "content": f"<{i}>", "special": True} for i in range(20, 41)]
    (folder / "tokenizer.json").write_text(json.dumps(document))
    chosen = prompts(Checkpoint.open(folder), 64)
    assert list(chosen)[:2] == ["highest ids", "added tokens"]
    assert chosen["added tokens"] == list(range(40, 24, -1))
    assert "added tokens" not in prompts(Checkpoint.open(folder), 41)
    assert prompts(Checkpoint.open(folder), 30)["highest ids"] == list(range(29, 13, -1))


def test_tokens_on_record_are_a_prompt_where_others_do_not_hold_them(tmp_path: Path) -> None:
    """A reserved id that was taken over lies among old tokens."""
    folder = build("llama", tmp_path / "c")
    tokens = [{"id": 7, "status": "added"}, {"id": 9, "status": "exists"}, {"id": 70, "status": "added"}]
    (folder / "vocabsurgeon.json").write_text(json.dumps({"tokens": tokens}))
    assert prompts(Checkpoint.open(folder), 64)["tokens of the record"] == [7]
    for damaged in ("{", "[]", '{"tokens": [7]}', '{"tokens": [{"id": "x", "status": "added"}]}'):
        (folder / "vocabsurgeon.json").write_text(damaged)
        assert "tokens of the record" not in prompts(Checkpoint.open(folder), 64)


def test_ids_that_stand_for_pictures_or_sound_are_left_out(tmp_path: Path) -> None:
    folder = build("llama", tmp_path / "c")
    added = {f"<{i}>": i for i in (30, 31, 32)}
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(30)))
    (folder / "added_tokens.json").write_text(json.dumps(added))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"image_token_id": 31, "pad_token_id": 30}))
    assert prompts(Checkpoint.open(folder), 64)["added tokens"] == [32, 30]
