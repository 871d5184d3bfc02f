"""CASES.md 16 to 19: tokenizers, end to end through `extend`. Ids are asked of the libraries that readers use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, normalizers
from transformers import AutoTokenizer

from tests.cases.sources import changed_rows, extended, llama
from tests.models.tokenizers import KINDS, folder, metaspace, word_level, word_piece
from tests.surgery.shelf import contents, reloaded, with_json


def _source(target: Path, tokenizer: Tokenizer, **siblings: Any) -> Path:
    """A checkpoint of 512 rows with `tokenizer`."""
    llama(target, 512, entries=2)
    unknown = next(name for name in ("<unk>", "[UNK]") if tokenizer.token_to_id(name) is not None or name == "[UNK]")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": unknown}
    siblings = {"tokenizer_config": config} | siblings
    folder(target, tokenizer, **siblings)
    return target


@pytest.mark.parametrize("ids", [(0, 1, 2, 4), (0, 5, 6, 7), (0, 1, 9)], ids=str)
def test_case_16_holes_do_not_move_a_new_id(ids: tuple[int, ...], tmp_path: Path) -> None:
    source, out = _source(tmp_path / "source", word_level(ids=ids)), tmp_path / "out"
    report = extended(source, out, "<a>", "<b>")
    top = max(ids)
    wanted = {"<a>": top + 1, "<b>": top + 2}
    assert {token["content"]: token["id"] for token in report.to_dict()["tokens"]} == wanted
    assert changed_rows(source, out) == set(wanted.values())
    fast, auto = Tokenizer.from_file(str(out / "tokenizer.json")), AutoTokenizer.from_pretrained(out)
    for token, number in wanted.items():
        assert fast.token_to_id(token) == auto.convert_tokens_to_ids(token) == number
        assert auto(f"w1 {token}", add_special_tokens=False)["input_ids"][-1] == number
    old = {f"w{number}": number for number in ids[1:]}
    assert {token: auto.convert_tokens_to_ids(token) for token in old} == old


def test_case_17_tokens_of_the_first_run_stay_special(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", word_level())
    extended(source, tmp_path / "one", "<a>", "<b>")
    extended(tmp_path / "one", tmp_path / "two", "<c>")
    auto = AutoTokenizer.from_pretrained(tmp_path / "two")
    assert {"<a>", "<b>", "<c>", "<unk>"} <= set(auto.all_special_tokens)
    ids = auto("w1 <a> <b> <c>", add_special_tokens=False)["input_ids"]
    assert ids == [1, 100, 101, 102] and auto.decode(ids, skip_special_tokens=True).split() == ["w1"]


def test_case_17_a_token_that_is_not_special_is_not_made_one(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", word_level())
    extended(source, tmp_path / "out", "<a>", special=False)
    assert "<a>" not in AutoTokenizer.from_pretrained(tmp_path / "out").all_special_tokens


def _lower(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


NORMALIZING: dict[str, Callable[[], Tokenizer]] = {
    "prepends and replaces spaces": metaspace,
    "lower-cases": lambda: _lower(word_level()),
    "strips accents and lower-cases": word_piece,
}


@pytest.mark.parametrize("make", NORMALIZING.values(), ids=list(NORMALIZING))
@pytest.mark.parametrize("token", ["<X>", "<x>", "Größe"])
def test_case_18_a_normalizer_does_not_touch_the_new_token(make: Any, token: str, tmp_path: Path) -> None:
    source, out = _source(tmp_path / "source", make()), tmp_path / "out"
    old = Tokenizer.from_file(str(source / "tokenizer.json"))
    number = extended(source, out, token).to_dict()["tokens"][0]["id"]
    for reader in (Tokenizer.from_file(str(out / "tokenizer.json")).encode, AutoTokenizer.from_pretrained(out)):
        for text in (f"a{token}a", token, f"the end {token}", f"{token} {token}"):
            encoded = reader(text, add_special_tokens=False)
            ids = encoded.ids if hasattr(encoded, "ids") else encoded["input_ids"]
            assert list(ids).count(number) == text.count(token), text
        for text in ("the other mother", " two  spaces", "naïve"):
            encoded = reader(text, add_special_tokens=False)
            ids = encoded.ids if hasattr(encoded, "ids") else encoded["input_ids"]
            assert list(ids) == old.encode(text, add_special_tokens=False).ids


TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.mark.parametrize("kind", KINDS)
def test_case_19_roles_post_processor_and_template_stay(kind: str, tmp_path: Path) -> None:
    tokenizer = KINDS[kind]()
    first, second = (tokenizer.id_to_token(number) for number in (0, 1))
    roles = {"bos_token": first, "eos_token": second, "pad_token": first, "chat_template": TEMPLATE}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
    source, out = _source(tmp_path / "source", tokenizer, tokenizer_config=config), tmp_path / "out"
    with_json(source / "generation_config.json", eos_token_id=[1, 2])
    extended(source, out, "<a>")
    old, new = (json.loads((place / "tokenizer.json").read_text()) for place in (source, out))
    assert [key for key in old if old[key] != new[key]] == ["added_tokens"]
    assert new["added_tokens"][: len(old["added_tokens"])] == old["added_tokens"]
    auto = AutoTokenizer.from_pretrained(out)
    assert (auto.bos_token, auto.eos_token, auto.pad_token, auto.chat_template) == (first, second, first, TEMPLATE)
    assert contents(out)["generation_config.json"] == contents(source)["generation_config.json"]
    before, after = reloaded(source).config, reloaded(out).config
    assert all(
        getattr(before, f"{role}_token_id") == getattr(after, f"{role}_token_id") for role in ("bos", "eos", "pad")
    )


def test_case_19_a_role_is_given_where_it_is_asked_for(tmp_path: Path) -> None:
    source, out = _source(tmp_path / "source", word_level()), tmp_path / "out"
    with_json(source / "generation_config.json", eos_token_id=[1, 2], bos_token_id=1)
    extended(source, out, "<end>", roles=["eos=<end>"])
    old, new = (json.loads(contents(place)["generation_config.json"]) for place in (source, out))
    assert new == old | {"eos_token_id": [1, 2, 100]}
    assert json.loads(contents(out)["config.json"])["eos_token_id"] == 100
    assert AutoTokenizer.from_pretrained(out).eos_token == "<end>"
    alone = extended(out, tmp_path / "alone", roles=["pad=<end>"])
    assert alone.to_dict()["changed"] and AutoTokenizer.from_pretrained(tmp_path / "alone").pad_token == "<end>"
    assert changed_rows(out, tmp_path / "alone") == set()
