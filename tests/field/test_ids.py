"""Ids that mean something already: timestamps, the highest id of a text, roles past the rows, placeholders.

transformers issues 33082 (2024) and 24650 (2023), diffusers 10754 (2025), InternVL 179 (2024), E5-V 7 (2024).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.cli.runner import vocabsurgeon
from tests.models.nested import build_nested
from tests.models.tiny import VOCAB, wordlevel_tokenizer
from tests.surgery.shelf import config_of, taken, with_config, with_json

_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def _tokens(folder: Path, added: tuple[str, ...], ends: tuple[str, str] | None = None, **settings: Any) -> Path:
    """A word tokenizer of `VOCAB` ids of which the last are `added`; `ends` are put around every text."""
    first = VOCAB - len(added)
    document = wordlevel_tokenizer(first)
    ids = {content: first + place for place, content in enumerate(added)}
    document["added_tokens"] = [{"id": number, "content": content, **_PLAIN} for content, number in ids.items()]
    if ends:
        pieces = [{"SpecialToken": {"id": end, "type_id": 0}} for end in ends]
        document["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [pieces[0], {"Sequence": {"id": "A", "type_id": 0}}, pieces[1]],
            "pair": [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"],
            "special_tokens": {end: {"id": end, "ids": [ids[end]], "tokens": [end]} for end in ends},
        }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _whisper(folder: Path) -> Path:
    """Ids 55 to 57 are marks, 58 ends them, 59 to 63 are timestamps."""
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in _SIDE.items()}
    ids = {"decoder_start_token_id": 56, "eos_token_id": 55, "bos_token_id": 55, "pad_token_id": 55}
    config = transformers.WhisperConfig(vocab_size=VOCAB, d_model=16, max_target_positions=32, **sides, **ids)
    model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config.no_timestamps_token_id = 58
    model.generation_config.lang_to_id = {"<|en|>": 57}
    model.save_pretrained(folder)
    marks = ("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|notimestamps|>")
    times = tuple(f"<|{place * 0.02:.2f}|>" for place in range(5))
    return _tokens(folder, (*marks, *times), eos_token="<|endoftext|>", tokenizer_class="WhisperTokenizer")


_SIDE = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}


def test_whisper_takes_no_ids_behind_its_timestamps(tmp_path: Path) -> None:
    source = _whisper(tmp_path / "source")
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "concord", "--no-special")
    assert ran.code == 2 and "timestamp" in ran.line and "--replace" in ran.line and "59" in ran.line
    checked = vocabsurgeon("check", source, "--json").document
    assert [entry["severity"] for entry in checked["findings"] if "timestamp" in entry["message"]] == ["note"]


def test_whisper_lets_a_reserved_token_be_replaced(tmp_path: Path) -> None:
    source = _whisper(tmp_path / "source")
    assert vocabsurgeon("extend", source, tmp_path / "out", "--replace", "<|en|>=<|xx|>").code == 0


def test_whispers_own_timestamps_may_be_added(tmp_path: Path) -> None:
    source = _whisper(tmp_path / "source")
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<|0.10|>").code == 0
    assert vocabsurgeon("extend", source, tmp_path / "other", "--token", "<|0.12|>").code == 2


def test_whispers_padding_rows_are_said_to_count_as_timestamps(tmp_path: Path) -> None:
    source = _whisper(tmp_path / "source")
    replacing = ("extend", source, tmp_path / "out", "--replace", "<|en|>=<|xx|>", "--dry-run", "--json")
    assert not [note for note in vocabsurgeon(*replacing).document["notes"] if "timestamp" in note]
    notes = vocabsurgeon(*replacing, "--pad-to-multiple-of", "48").document["notes"]
    assert [note for note in notes if "32 padding rows" in note and "timestamps in generation" in note]


def _clip(folder: Path, eos: int) -> Path:
    config = transformers.CLIPTextConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=32,
        projection_dim=8,
        eos_token_id=eos,
        bos_token_id=0 if eos == 2 else 62,
        pad_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        transformers.CLIPTextModelWithProjection(config).save_pretrained(folder)
    ends = ("<|startoftext|>", "<|endoftext|>")
    return _tokens(folder, ends, ends, bos_token=ends[0], eos_token=ends[1], pad_token=ends[1])


def _pooled_at(folder: Path, text: str) -> tuple[list[int], list[int]]:
    """The positions whose projection is the text's embedding, and the ids."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.CLIPTextModelWithProjection.from_pretrained(folder).eval()
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        found = model(input_ids=ids)
        each = model.text_projection(found.last_hidden_state[0])
    at = [place for place, row in enumerate(each) if torch.allclose(row, found.text_embeds[0], atol=1e-6)]
    return at, ids[0].tolist()


def test_clip_with_the_old_eos_is_refused_and_the_way_out_works(tmp_path: Path) -> None:
    source = _clip(tmp_path / "source", 2)
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<toy>")
    assert ran.code == 2 and "highest id" in ran.line and "--role 'eos=<|endoftext|>'" in ran.line
    roles = ("--role", "eos=<|endoftext|>")
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<toy>", *roles).code == 0
    at, ids = _pooled_at(tmp_path / "out", "w5 <toy> w7 w9")
    assert at == [ids.index(63)] and 64 in ids
    old, _ = _pooled_at(source, "w5 w7 w9")
    assert _pooled_at(tmp_path / "out", "w5 w7 w9")[0] == old


def test_clip_with_its_own_eos_is_extended(tmp_path: Path) -> None:
    source = _clip(tmp_path / "source", 63)
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<toy>").code == 0
    at, ids = _pooled_at(tmp_path / "out", "w5 <toy> w7")
    assert at == [ids.index(63)]


def test_a_padding_id_past_the_rows_is_an_error_and_is_settled_by_the_tokenizer(tmp_path: Path) -> None:
    source = _tokens(with_config(taken(tmp_path / "source"), pad_token_id=VOCAB), ("<pad>",), pad_token="<pad>")
    with pytest.raises(AssertionError):
        transformers.AutoModelForCausalLM.from_pretrained(source)
    checked = vocabsurgeon("check", source)
    assert checked.code == 1 and "pad_token_id" in checked.stdout
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<x>")
    assert ran.code == 0 and "'<pad>'" in ran.stdout
    assert config_of(tmp_path / "out")["pad_token_id"] == 63
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_a_padding_id_past_the_rows_without_a_padding_token_is_refused(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), pad_token_id=VOCAB + 5)
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<x>")
    assert ran.code == 2 and "pad_token_id" in ran.line and "--role pad=" in ran.line
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<p>", "--role", "pad=<p>").code == 0
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_roles_that_contradict_are_errors_with_a_fix(tmp_path: Path) -> None:
    source = _tokens(taken(tmp_path / "source"), ("<pad>", "</s>"), pad_token="<pad>", eos_token="</s>")
    with_config(source, pad_token_id=1, eos_token_id=7)
    with_json(source / "generation_config.json", eos_token_id=9, pad_token_id=62)
    ran = vocabsurgeon("check", source, "--json")
    errors = [entry for entry in ran.document["findings"] if entry["severity"] == "error"]
    assert ran.code == 1 and {entry["message"].partition(":")[0] for entry in errors} == {"eos", "pad"}
    roles = ("--role", "eos=</s>", "--role", "pad=<pad>")
    assert vocabsurgeon("extend", source, tmp_path / "out", *roles).code == 0
    assert vocabsurgeon("check", tmp_path / "out").code == 0


@pytest.mark.parametrize(
    "file, key, value",
    [
        ("generation_config.json", "lang_to_id", {"<|en|>": 64}),
        ("generation_config.json", "suppress_tokens", [3, 64]),
        ("generation_config.json", "bad_words_ids", [[64]]),
        ("generation_config.json", "forced_decoder_ids", [[1, 64]]),
        ("processor_config.json", "image_token_id", 64),
        ("config.json", "unheard_of_id", 64),
    ],
)
def test_an_id_that_any_file_names_is_not_handed_out_by_accident(
    file: str, key: str, value: Any, tmp_path: Path
) -> None:
    source = taken(tmp_path / "source")
    with_json(source / file, **{key: value})
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and key in ran.line and "64" in ran.line and file in ran.line


def test_no_spelling_makes_a_banned_id_welcome(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_json(source / "generation_config.json", suppress_tokens=[64])
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<suppress>")
    assert ran.code == 2 and "take 64 out of suppress_tokens" in ran.line


@pytest.mark.parametrize("key, value", [("bad_words_ids", [[3, 64]]), ("suppress_tokens", [3]), ("max_length", 64)])
def test_what_names_no_single_new_id_does_not_block(key: str, value: Any, tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_json(source / "generation_config.json", **{key: value})
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>").code == 0


def test_the_placeholder_goes_first(tmp_path: Path) -> None:
    source = with_config(build_nested("llava", tmp_path / "source"), image_token_index=64)
    assert "image_token_index" in vocabsurgeon("check", source).stdout
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<tool>").code == 2
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<image>", "--token", "<tool>").code == 0
