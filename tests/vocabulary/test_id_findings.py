"""`check` on ids and flags: past the rows, contradicting, without a token, computed with; silence where all is well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.nested import build_nested
from tests.models.tiny import wordlevel_tokenizer, write_tokenizer
from tests.surgery.shelf import config_of, shelved, taken, with_config, with_json
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.id_findings import id_findings


def _told(source: Path) -> list[tuple[str, str]]:
    told = list(id_findings(describe(Checkpoint.open(source))))
    assert all(fix for _, _, fix in told)
    return [(severity, message) for severity, message, _ in told]


def _with_tokens(source: Path, added: tuple[str, ...], **roles: str) -> Path:
    """A word tokenizer whose last ids are the special tokens `added`."""
    write_tokenizer(source, 64)
    document = wordlevel_tokenizer(64 - len(added))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document["added_tokens"] = [
        {"id": 64 - len(added) + place, "content": content, **flags} for place, content in enumerate(added)
    ]
    (source / "tokenizer.json").write_text(json.dumps(document))
    return with_json(source / "tokenizer_config.json", **roles)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2", "bloom"])
def test_a_sound_checkpoint_is_silent(family: str) -> None:
    assert _told(shelved(family)) == []


@pytest.mark.parametrize(
    "file, key, value, severity",
    [
        ("config.json", "pad_token_id", 64, "error"),
        ("config.json", "eos_token_id", 64, "error"),
        ("config.json", "eos_token_id", [2, 64], "warning"),
        ("config.json", "image_token_index", 64, "error"),
        ("config.json", "dataset_id", 20231, "note"),
        ("generation_config.json", "decoder_start_token_id", 99, "error"),
        ("generation_config.json", "lang_to_id", {"<|en|>": 64}, "error"),
        ("processor_config.json", "image_token_id", 64, "error"),
        ("generation_config.json", "suppress_tokens", [3, 99], "note"),
    ],
)
def test_an_id_past_the_rows(file: str, key: str, value: Any, severity: str, tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_json(source / file, **{key: value})
    told = [entry for entry in _told(source) if "64 rows" in entry[1]]
    assert [entry[0] for entry in told] == [severity] and f"{key} in {file}" in told[0][1]


def test_the_last_row_is_inside(tmp_path: Path) -> None:
    assert _told(with_config(taken(tmp_path / "source"), image_token_index=63)) == []


def test_an_image_token_that_is_replaced_before_the_lookup_is_a_note(tmp_path: Path) -> None:
    source = with_config(build_nested("gemma3", tmp_path / "source"), image_token_index=64)
    assert [severity for severity, message in _told(source) if "64 rows" in message] == ["note"]


def test_config_generation_and_tokenizer_contradict(tmp_path: Path) -> None:
    source = _with_tokens(taken(tmp_path / "source"), ("<pad>", "</s>"), pad_token="<pad>", eos_token="</s>")
    with_config(source, pad_token_id=62, eos_token_id=[63, 5])
    with_json(source / "generation_config.json", eos_token_id=5, pad_token_id=62)
    told = _told(source)
    assert len(told) == 1 and told[0][0] == "error" and told[0][1].startswith("eos: ")
    with_json(source / "generation_config.json", eos_token_id=[5, 63])
    assert _told(source) == []
    with_config(source, pad_token_id=1)
    assert [message.partition(":")[0] for severity, message in _told(source) if severity == "error"] == ["pad"]


def test_two_special_tokens_may_both_end_a_text(tmp_path: Path) -> None:
    source = _with_tokens(taken(tmp_path / "source"), ("<eos>", "<turn>", "<s>"), eos_token="<turn>", bos_token="<s>")
    with_config(source, eos_token_id=61, bos_token_id=63)
    with_json(source / "generation_config.json", eos_token_id=61, bos_token_id=63)
    assert [severity for severity, _ in _told(source)] == ["note"]
    with_config(source, eos_token_id=63)
    assert "error" in [severity for severity, _ in _told(source)]


def test_a_processors_placeholder_against_the_config(tmp_path: Path) -> None:
    source = _with_tokens(build_nested("llava", tmp_path / "source"), ("<image>", "<other>"))
    with_json(source / "processor_config.json", image_token="<image>")
    told = _told(source)
    assert [entry[0] for entry in told] == ["error"] and "image_token_index" in told[0][1]
    assert _told(with_config(source, image_token_index=62)) == []


def test_parts_may_look_for_markers_of_their_own(tmp_path: Path) -> None:
    source = build_nested("llava", tmp_path / "source")
    text = {**config_of(source)["text_config"], "user_token_id": 7}
    assert _told(with_config(source, user_token_id=8, text_config=text)) == []


def test_a_role_that_one_side_leaves_out_agrees(tmp_path: Path) -> None:
    source = _with_tokens(taken(tmp_path / "source"), ("</s>",), eos_token="</s>")
    with_config(source, eos_token_id=63, bos_token_id=5)
    with_json(source / "generation_config.json", eos_token_id=[63], bos_token_id=None)
    assert _told(source) == []


def test_an_id_without_a_token_is_a_note(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), image_token_index=62)
    write_tokenizer(source, 60)
    assert [(severity, "image_token_index" in message) for severity, message in _told(source)] == [("note", True)]


@pytest.mark.parametrize("family, root", [("llava", False), ("qwen2_vl", False), ("gemma3", True)])
def test_flags_that_contradict_between_levels(family: str, root: bool, tmp_path: Path) -> None:
    source = build_nested(family, tmp_path / "source", tied=True)
    text = {**config_of(source)["text_config"], "tie_word_embeddings": not root}
    told = _told(with_config(source, tie_word_embeddings=root, text_config=text))
    flagged = [entry for entry in told if "tie_word_embeddings" in entry[1]]
    state = str(describe(Checkpoint.open(source)).tie.state)
    assert state == "headless" or [entry[0] for entry in flagged] == ["error"], state


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "gemma3"])
@pytest.mark.parametrize("tied", [True, False])
def test_flags_that_agree_are_silent(family: str, tied: bool, tmp_path: Path) -> None:
    assert _told(build_nested(family, tmp_path / "source", tied)) == []


def test_what_the_class_computes_is_a_note_once_a_new_id_could_meet_it(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_json(source / "tokenizer_config.json", tokenizer_class="WhisperTokenizer")
    with_json(source / "generation_config.json", no_timestamps_token_id=50)
    assert [severity for severity, message in _told(source) if "timestamp" in message] == ["note"]
