"""What is written for assigned tokens: each file differs by the new entries, and every reader knows them."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from tests.models.tokenizers import (
    BYTE_LEVEL_IDS,
    KINDS,
    Folder,
    byte_level,
    decoder_entries,
    folder,
    metaspace,
    unigram,
    word_level,
    word_piece,
)
from vocabsurgeon.surgery.tokens import Assignment, TokenRefusal, TokenRequest, assign
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.surgery.tokens.regression import compare_tokenizers


def extended(
    place: Folder, target: Path, *requests: TokenRequest, template: str | None = None, **options: Any
) -> Folder:
    """The folder with the tokens, proved by the regression."""
    assignment = assign(place, place.tokenizer, requests, **options)
    assert isinstance(assignment, Assignment), assignment
    result = place.copied_to(target, tokenizer_edits(place, assignment, chat_template=template))
    assert compare_tokenizers(assignment.baseline or place, result, assignment.tokens) == ()
    return result


def added_lines(before: Folder, after: Folder, name: str) -> list[str]:
    """The lines of `after` that are not in `before`; asserts that none is lost but for a comma behind it."""
    old, new = (place.read_bytes(name).decode().split("\n") for place in (before, after))
    changes = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    assert old != new
    lost = [line[2:] for line in changes if line[0] == "-"]
    gained = [line[2:] for line in changes if line[0] == "+"]
    for line in (line.removesuffix("[],") for line in lost):
        if line.endswith('": '):  # an empty list that is filled
            gained.remove(line + "[")
            continue
        assert line + "," in gained
        gained.remove(line + ",")
    return gained


@pytest.mark.parametrize("kind", KINDS)
def test_tokenizer_json_differs_by_the_new_entries_alone(tmp_path: Path, kind: str) -> None:
    place = folder(tmp_path / "a", KINDS[kind]())
    result = extended(place, tmp_path / "b", TokenRequest("<x>"), TokenRequest("<y>", special=False))
    old, new = place.read_json("tokenizer.json"), result.read_json("tokenizer.json")
    assert new["added_tokens"][: len(old["added_tokens"])] == old["added_tokens"]
    assert [entry["content"] for entry in new["added_tokens"][len(old["added_tokens"]) :]] == ["<x>", "<y>"]
    assert {**new, "added_tokens": 0} == {**old, "added_tokens": 0}
    assert list(new["added_tokens"][-1]) == [
        "id",
        "content",
        "single_word",
        "lstrip",
        "rstrip",
        "normalized",
        "special",
    ]
    assert len(added_lines(place, result, "tokenizer.json")) <= 20


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_the_declared_ids(tmp_path: Path, kind: str) -> None:
    from transformers import PreTrainedTokenizerFast

    place = folder(tmp_path / "a", KINDS[kind]())
    result = extended(place, tmp_path / "b", TokenRequest("<x>"), TokenRequest("<y>", special=False))
    loaded = PreTrainedTokenizerFast.from_pretrained(result.root)
    top = max(KINDS[kind]().get_vocab().values())
    assert loaded.convert_tokens_to_ids(["<x>", "<y>"]) == [top + 1, top + 2]
    assert "<x>" in loaded.all_special_tokens
    assert "<y>" not in loaded.all_special_tokens


def test_nothing_asked_writes_nothing(tmp_path: Path) -> None:
    place = folder(tmp_path, byte_level(), tokenizer_config={"eos_token": "<|endoftext|>"})
    assert tokenizer_edits(place, Assignment(place.tokenizer)) == ()
    assignment = assign(place, place.tokenizer, [TokenRequest("<|endoftext|>")])
    assert isinstance(assignment, Assignment)
    assert tokenizer_edits(place, assignment) == ()


def test_doing_it_twice_changes_nothing_more(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", byte_level())
    once = extended(place, tmp_path / "b", TokenRequest("<x>", role="eos"))
    assignment = assign(once, once.tokenizer, [TokenRequest("<x>", role="eos")])
    assert isinstance(assignment, Assignment)
    assert tokenizer_edits(once, assignment) == ()


def test_added_tokens_decoder_is_extended_where_it_is(tmp_path: Path) -> None:
    built = metaspace()
    config = {"added_tokens_decoder": decoder_entries(built), "bos_token": "<s>", "model_max_length": 10**30}
    place = folder(tmp_path / "a", built, tokenizer_config=config)
    result = extended(place, tmp_path / "b", TokenRequest("<x>", lstrip=True))
    entries = result.read_json("tokenizer_config.json")["added_tokens_decoder"]
    flags = {
        "content": "<x>",
        "lstrip": True,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": True,
    }
    assert entries[str(built.get_vocab_size())] == flags
    assert len(added_lines(place, result, "tokenizer_config.json")) == 11


@pytest.mark.parametrize(
    ("config", "special_map"),
    [
        ({}, None),
        ({"extra_special_tokens": ["<old>"]}, None),
        ({"extra_special_tokens": {"old_token": "<old>"}}, None),
        ({"extra_special_tokens": {}, "additional_special_tokens": ["<old>"]}, None),
        ({"additional_special_tokens": ["<old>"]}, None),
        ({"additional_special_tokens": None}, None),
        ({}, {"additional_special_tokens": ["<old>"]}),
        ({}, {"additional_special_tokens": [{"__type": "AddedToken", "content": "<old>"}]}),
        ({}, {"eos_token": "<old>"}),
        ({"eos_token": "<old>"}, {"extra_special_tokens": ["<old>"]}),
    ],
    ids=range(10),
)
@pytest.mark.parametrize("decoder", [False, True])
def test_special_tokens_stay_special_and_new_ones_join_them(
    tmp_path: Path, config: dict[str, Any], special_map: dict[str, Any] | None, decoder: bool
) -> None:
    from transformers import PreTrainedTokenizerFast

    built = byte_level()
    built.add_special_tokens(["<old>"])
    config = config | ({"added_tokens_decoder": decoder_entries(built)} if decoder else {})
    siblings = {"tokenizer_config": config} | ({"special_tokens_map": special_map} if special_map else {})
    place = folder(tmp_path / "a", built, **siblings)
    before = PreTrainedTokenizerFast.from_pretrained(place.root)
    first = extended(place, tmp_path / "b", TokenRequest("<x>"), TokenRequest("<X>"))
    second = extended(first, tmp_path / "c", TokenRequest("<y>"))
    after = PreTrainedTokenizerFast.from_pretrained(second.root)
    assert set(after.all_special_tokens) == {*before.all_special_tokens, "<x>", "<X>", "<y>"}
    assert after.convert_tokens_to_ids(["<old>", "<x>", "<X>", "<y>"]) == [
        BYTE_LEVEL_IDS + number for number in range(4)
    ]


def test_slow_files_get_added_tokens_json_and_stay_themselves(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", byte_level())
    (place.root / "vocab.json").write_text(json.dumps(byte_level().get_vocab()))
    (place.root / "merges.txt").write_text("#version: 0.2\n")
    result = extended(place, tmp_path / "b", TokenRequest("<x>"))
    assert result.read_json("added_tokens.json") == {"<x>": BYTE_LEVEL_IDS}
    again = extended(result, tmp_path / "c", TokenRequest("<y>"))
    assert again.read_json("added_tokens.json") == {"<x>": BYTE_LEVEL_IDS, "<y>": BYTE_LEVEL_IDS + 1}
    for name in ("vocab.json", "merges.txt"):
        assert again.read_bytes(name) == place.read_bytes(name)


def test_replace_renames_in_every_file(tmp_path: Path) -> None:
    built = byte_level()
    built.add_tokens([AddedToken("<r0>", special=True, lstrip=True), AddedToken("<r1>", special=True)])
    place = folder(
        tmp_path / "a",
        built,
        tokenizer_config={
            "added_tokens_decoder": decoder_entries(built),
            "pad_token": {"__type": "AddedToken", "content": "<r0>"},
            "image_token": "<r0>",
            "additional_special_tokens": ["<r0>", "<r1>"],
        },
        special_tokens_map={"pad_token": "<r0>", "additional_special_tokens": ["<r0>", "<r1>"]},
        added_tokens={"<r0>": BYTE_LEVEL_IDS, "<r1>": BYTE_LEVEL_IDS + 1},
    )
    result = extended(place, tmp_path / "b", TokenRequest("<new>", replaces="<r0>"))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        assert b"<r0>" not in result.read_bytes(name)
    config = result.read_json("tokenizer_config.json")
    assert config["added_tokens_decoder"][str(BYTE_LEVEL_IDS)]["content"] == "<new>"
    assert config["additional_special_tokens"] == ["<new>", "<r1>"]
    assert config["pad_token"]["content"] == config["image_token"] == "<new>"
    assert result.read_json("added_tokens.json") == {"<new>": BYTE_LEVEL_IDS, "<r1>": BYTE_LEVEL_IDS + 1}
    assert Tokenizer.from_file(str(result.root / "tokenizer.json")).encode("a<new>b<r1>").ids[1] == BYTE_LEVEL_IDS


def test_replace_by_an_ordinary_token_leaves_the_list(tmp_path: Path) -> None:
    built = byte_level()
    built.add_special_tokens(["<r0>"])
    place = folder(tmp_path / "a", built, tokenizer_config={"extra_special_tokens": ["<r0>"]})
    result = extended(place, tmp_path / "b", TokenRequest("word9", special=False, replaces="<r0>"))
    assert result.read_json("tokenizer_config.json")["extra_special_tokens"] == []


@pytest.mark.parametrize("kind", ["unigram", "word_piece", "metaspace"])
def test_replace_of_an_entry_of_the_models_vocabulary(tmp_path: Path, kind: str) -> None:
    old = {"unigram": "<pad>", "word_piece": "[MASK]", "metaspace": "</s>"}[kind]
    place = folder(tmp_path / "a", KINDS[kind]())
    number = KINDS[kind]().token_to_id(old)
    result = extended(place, tmp_path / "b", TokenRequest("<new>", replaces=old))
    loaded = Tokenizer.from_file(str(result.root / "tokenizer.json"))
    assert (loaded.token_to_id("<new>"), loaded.token_to_id(old)) == (number, None)
    assert loaded.get_vocab_size() == KINDS[kind]().get_vocab_size()


def test_replace_of_the_unknown_token_keeps_it_the_unknown_token(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", metaspace(), tokenizer_config={"unk_token": "<unk>"})
    result = extended(place, tmp_path / "b", TokenRequest("<new>", replaces="<unk>"))
    assert result.tokenizer is not None
    assert result.tokenizer.unknown_id == 0
    assert roles_of(result) == {"unk_token": "<new>"}


def test_promote_makes_an_entry_an_added_token(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", byte_level())
    result = extended(place, tmp_path / "b", TokenRequest("other"), promote=True)
    loaded = Tokenizer.from_file(str(result.root / "tokenizer.json"))
    assert byte_level().token_to_id("other") in loaded.encode("mother").ids


def roles_of(place: Folder) -> dict[str, Any]:
    return {key: value for key, value in place.read_json("tokenizer_config.json").items() if key.endswith("_token")}


def test_roles_reach_config_map_generation_and_template(tmp_path: Path) -> None:
    place = folder(
        tmp_path / "a",
        metaspace(),
        tokenizer_config={"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}},
        special_tokens_map={"bos_token": "<s>", "eos_token": "</s>"},
        generation_config={"bos_token_id": 1, "eos_token_id": [2, 7]},
    )
    result = extended(place, tmp_path / "b", TokenRequest("<b>", role="bos"), TokenRequest("<e>", role="eos"))
    top = metaspace().get_vocab_size()
    assert roles_of(result) == {"bos_token": "<b>", "eos_token": {"__type": "AddedToken", "content": "<e>"}}
    assert result.read_json("special_tokens_map.json")["eos_token"] == "<e>"
    assert result.read_json("generation_config.json") == {"bos_token_id": top, "eos_token_id": [2, 7, top + 1]}
    loaded = Tokenizer.from_file(str(result.root / "tokenizer.json"))
    assert loaded.encode("a").ids[0] == top
    assert loaded.encode("a", "b").ids.count(top) == 2


def test_cls_and_sep_reach_bert_processing(tmp_path: Path) -> None:
    config = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    built = word_piece()
    built.enable_padding(pad_id=0, pad_token="[PAD]")
    place = folder(tmp_path / "a", built, tokenizer_config=config)
    result = extended(place, tmp_path / "b", TokenRequest("<c>"), roles={"cls": "<c>", "sep": "[MASK]", "pad": "[UNK]"})
    loaded = Tokenizer.from_file(str(result.root / "tokenizer.json"))
    top = word_piece().get_vocab_size()
    assert (loaded.encode("the").ids[0], loaded.encode("the").ids[-1]) == (top, 4)
    padding: Any = loaded.padding
    assert (padding["pad_token"], padding["pad_id"]) == ("[UNK]", 1)


def test_a_template_token_that_another_role_holds_stays(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "cls_token": "<s>"}
    place = folder(tmp_path / "a", metaspace(), tokenizer_config=config)
    alone = extended(place, tmp_path / "b", TokenRequest("<b>", role="bos"))
    assert Tokenizer.from_file(str(alone.root / "tokenizer.json")).encode("a").ids[0] == 1
    both = extended(place, tmp_path / "c", TokenRequest("<b>"), roles={"bos": "<b>", "cls": "<b>"})
    assert Tokenizer.from_file(str(both.root / "tokenizer.json")).encode("a").ids[0] == metaspace().get_vocab_size()


@pytest.mark.parametrize(
    ("config", "template", "written"),
    [
        ({"chat_template": "old"}, None, {"tokenizer_config.json"}),
        ({"chat_template": [{"name": "default", "template": "old"}]}, None, {"tokenizer_config.json"}),
        ({}, None, {"chat_template.jinja"}),
        ({}, "old", {"chat_template.jinja"}),
        ({"chat_template": "old"}, "old", {"tokenizer_config.json", "chat_template.jinja"}),
    ],
    ids=range(5),
)
def test_the_chat_template_goes_where_the_source_keeps_it(
    tmp_path: Path, config: dict[str, Any], template: str | None, written: set[str]
) -> None:
    from transformers import PreTrainedTokenizerFast

    place = folder(tmp_path / "a", word_level(4), tokenizer_config=config)
    if template:
        (place.root / "chat_template.jinja").write_text(template)
    edits = tokenizer_edits(place, Assignment(place.tokenizer), chat_template="{{ 'new' }}\n")
    assert {edit.name for edit in edits} == written
    result = place.copied_to(tmp_path / "b", edits)
    loaded = PreTrainedTokenizerFast.from_pretrained(result.root).chat_template
    assert (loaded["default"] if isinstance(loaded, dict) else loaded) == "{{ 'new' }}\n"
    assert tokenizer_edits(result, Assignment(result.tokenizer), chat_template="{{ 'new' }}\n") == ()


# Cases 16 to 19 of the field


def test_case_16_an_id_behind_a_hole_is_what_every_reader_gives(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    place = folder(tmp_path / "a", word_level(ids=(0, 1, 2, 4)))
    result = extended(place, tmp_path / "b", TokenRequest("<x>"), TokenRequest("<y>"))
    assert result.read_json("tokenizer.json")["model"]["vocab"] == {
        "<unk>": 0,
        "w1": 1,
        "w2": 2,
        "w4": 4,
        "<x>": 5,
        "<y>": 6,
    }
    loaded = PreTrainedTokenizerFast.from_pretrained(result.root)
    assert loaded.convert_tokens_to_ids(["w4", "<x>", "<y>"]) == [4, 5, 6]
    assert loaded("w4 <x> <y>").input_ids == [4, 5, 6]


def test_case_16_ids_that_no_edit_can_settle_are_refused(tmp_path: Path) -> None:
    built = unigram()
    built.add_special_tokens(["<far>"])
    place = folder(tmp_path, built, tokenizer_config={"added_tokens_decoder": {}})
    refusal = assign(place, place.tokenizer, [TokenRequest("<x>")])
    assert isinstance(refusal, TokenRefusal)
    assert "holes" in refusal.reason


def test_case_17_tokens_of_an_earlier_run_stay_special(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    place = folder(tmp_path / "a", word_level())
    first = extended(place, tmp_path / "b", TokenRequest("<x>"))
    second = extended(first, tmp_path / "c", TokenRequest("<y>"))
    assert PreTrainedTokenizerFast.from_pretrained(second.root).all_special_tokens == ["<x>", "<y>"]


@pytest.mark.parametrize("kind", KINDS)
def test_case_18_a_token_is_one_id_wherever_it_stands(tmp_path: Path, kind: str) -> None:
    place = folder(tmp_path / "a", KINDS[kind]())
    result = extended(place, tmp_path / "b", TokenRequest("<X>"))
    loaded = Tokenizer.from_file(str(result.root / "tokenizer.json"))
    number = max(KINDS[kind]().get_vocab().values()) + 1
    assert loaded.encode("<X>", add_special_tokens=False).ids == [number]
    for text in ("a<X>a", "the <X> fox", "<X> the", "the <X>", "the<X>\n<"):
        assert loaded.encode(text).ids.count(number) == 1
    assert number not in loaded.encode("<x>").ids


def test_case_19_roles_processor_and_template_stay(tmp_path: Path) -> None:
    built = metaspace()
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": "{{ messages }}"}
    place = folder(tmp_path / "a", built, tokenizer_config=config, generation_config={"eos_token_id": 2})
    result = extended(place, tmp_path / "b", TokenRequest("<x>"))
    after = result.read_json("tokenizer_config.json")
    assert {key: after[key] for key in config} == config
    assert result.read_json("tokenizer.json")["post_processor"] == place.read_json("tokenizer.json")["post_processor"]
    assert result.read_bytes("generation_config.json") == place.read_bytes("generation_config.json")
