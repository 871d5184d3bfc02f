"""Tokenizers without a tokenizer.json: converted and checked id for id, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.models.tokenizers import BYTE_LEVEL_IDS, Folder, byte_level
from vocabsurgeon.surgery.tokens import Assignment, TokenRefusal, TokenRequest, assign
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.surgery.tokens.regression import compare_tokenizers


def gpt2(path: Path, tokenizer_class: str = "GPT2Tokenizer") -> Folder:
    """vocab.json and merges.txt alone."""
    path.mkdir()
    data = json.loads(byte_level().to_str())["model"]
    (path / "vocab.json").write_text(json.dumps(data["vocab"]))
    (path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(pair) for pair in data["merges"]) + "\n")
    (path / "config.json").write_text('{"model_type": "gpt2"}')
    settings = {"tokenizer_class": tokenizer_class, "eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"}
    (path / "tokenizer_config.json").write_text(json.dumps({**settings, "unk_token": "<|endoftext|>"}))
    return Folder(path)


def test_vocab_and_merges_are_converted_and_extended(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    place = gpt2(tmp_path / "a")
    assignment = assign(place, place.tokenizer, [TokenRequest("<x>")])
    assert isinstance(assignment, Assignment)
    assert "made from its files" in assignment.notes[0]
    edits = tokenizer_edits(place, assignment)
    assert {edit.name for edit in edits} == {"tokenizer.json", "tokenizer_config.json", "added_tokens.json"}
    result = place.copied_to(tmp_path / "b", edits)
    assert compare_tokenizers(assignment.baseline or place, result, assignment.tokens) == ()
    loaded = AutoTokenizer.from_pretrained(result.root)
    assert loaded.convert_tokens_to_ids("<x>") == BYTE_LEVEL_IDS
    assert "<x>" in loaded.all_special_tokens
    text = "the other mother<x> naïve 😀"
    old = Tokenizer.from_str(byte_level().to_str())
    assert loaded(text.replace("<x>", "")).input_ids == old.encode(text.replace("<x>", "")).ids
    assert loaded(text).input_ids.count(BYTE_LEVEL_IDS) == 1


def test_a_conversion_that_moves_an_id_is_refused(tmp_path: Path) -> None:
    place = gpt2(tmp_path / "a")
    (place.root / "added_tokens.json").write_text(json.dumps({"<far>": BYTE_LEVEL_IDS + 7}))
    refusal = assign(place, place.tokenizer, [TokenRequest("<x>")])
    assert isinstance(refusal, TokenRefusal)
    assert f"{BYTE_LEVEL_IDS + 7}" in refusal.evidence[0]


def test_what_transformers_cannot_convert_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "config.json").write_text('{"model_type": "none-such"}')
    place = Folder(tmp_path)
    refusal = assign(place, place.tokenizer, [TokenRequest("<x>")])
    assert isinstance(refusal, TokenRefusal)
    assert refusal.evidence


def test_a_sentencepiece_model_alone_is_converted(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece")
    (tmp_path / "text.txt").write_text("the other mother bothered another brother\n" * 50)
    place = Folder(tmp_path / "a")
    place.root.mkdir()
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"),
        model_prefix=str(place.root / "tokenizer"),
        vocab_size=40,
        model_type="bpe",
        byte_fallback=False,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (place.root / "tokenizer.vocab").unlink()
    (place.root / "config.json").write_text('{"model_type": "llama"}')
    (place.root / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    assignment = assign(place, place.tokenizer, [TokenRequest("<x>")])
    assert isinstance(assignment, Assignment), assignment
    model = library.SentencePieceProcessor(model_file=str(place.root / "tokenizer.model"))
    result = place.copied_to(tmp_path / "b", tokenizer_edits(place, assignment))
    assert result.read_bytes("tokenizer.model") == place.read_bytes("tokenizer.model")
    loaded = Tokenizer.from_file(str(result.root / "tokenizer.json"))
    assert loaded.token_to_id("<x>") == model.get_piece_size()
    assert loaded.encode("the other mother", add_special_tokens=False).ids == model.encode("the other mother")
