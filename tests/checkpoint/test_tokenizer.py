"""Tokenizer files read as data: ids, holes, added tokens, roles; agreement with the library that runs them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken as LibraryToken
from tokenizers import Tokenizer

from tests.models.tokenizers import KINDS, Folder, decoder_entries, folder, word_level
from vocabsurgeon.checkpoint.added_tokens import AddedToken, counted_ids
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.errors import CheckpointError, TokenizerError


def read(place: Folder) -> TokenizerFiles:
    files = TokenizerFiles.read(place)
    assert files is not None
    return files


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_library(tmp_path: Path, kind: str) -> None:
    built = KINDS[kind]()
    built.add_tokens([LibraryToken("<x>", special=True), LibraryToken("<y>", lstrip=True)])
    files = read(folder(tmp_path, built))
    assert dict(files.token_to_id) == built.get_vocab(with_added_tokens=True)
    assert files.max_id == max(built.get_vocab().values())
    assert files.count == built.get_vocab_size()
    assert files.holes == ()
    assert files.findings == ()
    flags = {token.content: (token.special, token.lstrip) for token in files.added}
    assert flags["<x>"] == (True, False)
    assert flags["<y>"] == (False, True)
    assert files.sha256 == hashlib.sha256((tmp_path / "tokenizer.json").read_bytes()).hexdigest()
    assert not files.slow_only


@pytest.mark.parametrize(
    ("kind", "unknown"), [("word_level", 0), ("byte_level", None), ("metaspace", 0), ("unigram", 2), ("word_piece", 1)]
)
def test_the_unknown_token_is_the_models(tmp_path: Path, kind: str, unknown: int | None) -> None:
    assert read(folder(tmp_path, KINDS[kind]())).unknown_id == unknown


def test_holes_are_the_numbers_that_are_no_id(tmp_path: Path) -> None:
    files = read(folder(tmp_path, word_level(ids=(0, 1, 2, 5, 7))))
    assert files.ranges == ((0, 3), (5, 6), (7, 8))
    assert files.holes == (3, 4, 6)
    assert (files.count, files.max_id) == (5, 7)


@pytest.mark.parametrize("ids", [(0, 1, 2, 4), tuple(range(10)), (0, 2, 4, 6, 8), (0, 1, 20)])
@pytest.mark.parametrize("names", [["<x>"], ["<x>", "<y>", "<z>"], ["<x>", "w4", "<y>"], ["w20", "<x>", "<y>"]])
def test_counted_ids_hold_what_the_library_counts(ids: tuple[int, ...], names: list[str]) -> None:
    built = word_level(ids=ids)
    data = json.loads(built.to_str())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    data["added_tokens"] = [{"id": 0, "content": name, **flags} for name in names]
    loaded = Tokenizer.from_str(json.dumps(data))
    counted = counted_ids(built.get_vocab(), len(ids), names)
    assert all(loaded.token_to_id(name) in counted[name] for name in names)


def test_a_declared_id_that_the_library_does_not_give_is_a_fault(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(ids=(0, 1, 2, 4)))
    data = place.read_json("tokenizer.json")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    data["added_tokens"] = [{"id": 5, "content": "<x>", **flags}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    assert read(place).faults == ("'<x>' has id 5, but a reader of tokenizer.json alone counts 4",)


def test_two_tokens_with_one_id_are_a_fault(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(4), added_tokens={"<x>": 3})
    assert read(place).faults == ("id 3 stands for both 'w3' and '<x>'",)


def test_files_that_disagree_about_an_id_are_told(tmp_path: Path) -> None:
    built = word_level(4)
    built.add_tokens(["<x>"])
    entries = {"7": {**decoder_entries(built)["4"]}}
    files = read(folder(tmp_path, built, tokenizer_config={"added_tokens_decoder": entries}))
    assert files.findings == ("added_tokens_decoder gives '<x>' the id 7, another file 4",)


def test_added_tokens_decoder_counts_where_tokenizer_json_is_silent(tmp_path: Path) -> None:
    entry = {"content": "<x>", "special": True, "lstrip": True}
    files = read(folder(tmp_path, word_level(4), tokenizer_config={"added_tokens_decoder": {"4": entry}}))
    assert files.added == (AddedToken(4, "<x>", special=True, lstrip=True),)
    assert files.max_id == 4


@pytest.mark.parametrize(
    ("config", "special_map", "roles", "listed", "where"),
    [
        ({}, None, {}, (), ("tokenizer_config.json", "extra_special_tokens")),
        ({"extra_special_tokens": ["<a>"]}, None, {}, ("<a>",), ("tokenizer_config.json", "extra_special_tokens")),
        ({"extra_special_tokens": {"n": "<a>"}}, None, {}, ("<a>",), ("tokenizer_config.json", "extra_special_tokens")),
        (
            {"extra_special_tokens": {}, "additional_special_tokens": ["<a>"]},
            None,
            {},
            ("<a>",),
            ("tokenizer_config.json", "additional_special_tokens"),
        ),
        (
            {"eos_token": {"__type": "AddedToken", "content": "<e>"}, "pad_token": None},
            {"additional_special_tokens": [{"content": "<a>"}]},
            {"eos": "<e>"},
            ("<a>",),
            ("special_tokens_map.json", "additional_special_tokens"),
        ),
        (
            {"eos_token": "<e>"},
            {"eos_token": "<f>"},
            {"eos": "<f>"},
            (),
            ("tokenizer_config.json", "extra_special_tokens"),
        ),
        (
            {"eos_token": "<e>", "added_tokens_decoder": {}},
            {"eos_token": "<f>", "additional_special_tokens": ["<a>"]},
            {"eos": "<e>"},
            (),
            ("tokenizer_config.json", "extra_special_tokens"),
        ),
    ],
    ids=range(7),
)
def test_roles_and_listed_tokens_are_what_transformers_takes(
    tmp_path: Path, config: Any, special_map: Any, roles: Any, listed: Any, where: Any
) -> None:
    siblings = {"tokenizer_config": config} | ({"special_tokens_map": special_map} if special_map else {})
    specials = read(folder(tmp_path, word_level(4), **siblings)).specials
    assert (dict(specials.roles), specials.listed) == (roles, listed)
    assert (specials.file, specials.key) == where


def test_a_special_token_without_an_id_is_told(tmp_path: Path) -> None:
    files = read(folder(tmp_path, word_level(4), tokenizer_config={"pad_token": "[PAD]"}))
    assert "'[PAD]' is named as a special token but has no id" in files.findings[0]


def varint(number: int) -> bytes:
    low = number & 0x7F
    return bytes([low | 0x80]) + varint(number >> 7) if number > 0x7F else bytes([low])


def sentencepiece(pieces: list[str]) -> bytes:
    """A model file with a score for each piece, and a trainer field that is to be stepped over."""
    raw = b""
    for piece in pieces:
        text = piece.encode()
        inner = b"\x0a" + varint(len(text)) + text + b"\x15\x00\x00\x80\xbf" + b"\x18\x01"
        raw += b"\x0a" + varint(len(inner)) + inner
    return raw + b"\x12\x03\x0a\x01x"


def test_slow_files_are_counted_without_their_libraries(tmp_path: Path) -> None:
    pieces = ["<unk>", "▁a", "語" * 60, "b"]
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece(pieces))
    files = read(Folder(tmp_path))
    assert dict(files.token_to_id) == {piece: number for number, piece in enumerate(pieces)}
    assert files.slow_only
    assert files.sha256 is None


def test_a_real_sentencepiece_model_is_read(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece")
    (tmp_path / "text.txt").write_text("the other mother bothered another brother\n" * 50)
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "tokenizer"), vocab_size=18, minloglevel=2
    )
    model = library.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    wanted = {model.id_to_piece(number): number for number in range(model.get_piece_size())}
    assert dict(read(Folder(tmp_path)).token_to_id) == wanted


def test_vocab_json_and_vocab_txt_are_read(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nword\n")
    assert dict(read(Folder(tmp_path)).token_to_id) == {"[PAD]": 0, "[UNK]": 1, "word": 2}
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 5}')
    (tmp_path / "added_tokens.json").write_text('{"<x>": 6}')
    files = read(Folder(tmp_path))
    assert files.holes == (1, 2, 3, 4)
    assert files.max_id == 6


def test_a_folder_without_a_tokenizer_has_none(tmp_path: Path) -> None:
    assert TokenizerFiles.read(Folder(tmp_path)) is None
    (tmp_path / "tokenizer.model").write_bytes(b"IQ== 0\nIg== 1\n")  # tiktoken
    assert TokenizerFiles.read(Folder(tmp_path)) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b"{"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b'{"model": {"vocab": 3}}'),
        ("tokenizer.json", b'{"model": {"vocab": {"a": -1}}}'),
        ("tokenizer.json", b'{"model": {"vocab": {"a": true}}}'),
        ("tokenizer.json", b'{"model": {"vocab": {"a": 99999999999}}}'),
        ("tokenizer.json", b'{"model": {"vocab": [["a"], 3]}}'),
        ("tokenizer.json", b'{"model": {"vocab": {"a": 0}}, "added_tokens": [3]}'),
        ("tokenizer.json", b'{"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1}]}'),
        ("tokenizer.json", b'{"model": {"vocab": {"a": 0}}, "added_tokens": {"x": 1}}'),
        ("tokenizer_config.json", b'{"added_tokens_decoder": {"x": {"content": "y"}}}'),
        ("tokenizer_config.json", b'{"added_tokens_decoder": [1]}'),
        ("added_tokens.json", b'{"x": "y"}'),
        ("added_tokens.json", b"[]"),
        ("tokenizer.model", b""),
        ("tokenizer.model", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("tokenizer.model", b"\x0a\x05abc"),
        ("vocab.json", b'{"a": 1.5}'),
        ("vocab.txt", b"\xff\xfe"),
    ],
    ids=range(19),
)
def test_a_damaged_file_is_one_line_that_names_it(tmp_path: Path, name: str, content: bytes) -> None:
    if name in ("tokenizer_config.json", "added_tokens.json"):
        folder(tmp_path, word_level(4))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        TokenizerFiles.read(Folder(tmp_path))
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ids_beyond_any_vocabulary_do_not_cost_memory(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text('{"a": 4194304}')
    with pytest.raises(TokenizerError, match="no id below 4194304"):
        TokenizerFiles.read(Folder(tmp_path))
