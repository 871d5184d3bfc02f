"""`assign`: which id, pieces and status a requested token gets, and which requests are refused."""

from __future__ import annotations

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
from vocabsurgeon.errors import TokenizerError, UsageError
from vocabsurgeon.surgery.tokens import Assignment, TokenRefusal, TokenRequest, assign


def assigned(place: Folder, *requests: TokenRequest, **options: Any) -> Assignment:
    result = assign(place, place.tokenizer, requests, **options)
    assert isinstance(result, Assignment), result
    return result


def refused(place: Folder, *requests: TokenRequest, **options: Any) -> TokenRefusal:
    result = assign(place, place.tokenizer, requests, **options)
    assert isinstance(result, TokenRefusal)
    return result


@pytest.mark.parametrize("kind", KINDS)
def test_new_ids_follow_the_highest_id_in_order(tmp_path: Path, kind: str) -> None:
    place = folder(tmp_path, KINDS[kind]())
    top = max(KINDS[kind]().get_vocab().values())
    result = assigned(place, TokenRequest("<x>"), TokenRequest("<y>", special=False))
    assert [(token.content, token.id, token.status) for token in result.tokens] == [
        ("<x>", top + 1, "added"),
        ("<y>", top + 2, "added"),
    ]
    assert result.in_model == ()


def test_holes_are_not_filled(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(ids=(0, 1, 2, 4)))
    result = assigned(place, TokenRequest("<x>"), TokenRequest("<y>"))
    assert [token.id for token in result.tokens] == [5, 6]
    assert result.in_model == ("<x>", "<y>")


@pytest.mark.parametrize("kind", ["byte_level", "metaspace"])
def test_pieces_are_what_the_source_makes_of_the_text(tmp_path: Path, kind: str) -> None:
    built = KINDS[kind]()
    place = folder(tmp_path, built)
    token, described = assigned(
        place, TokenRequest("<tool>"), TokenRequest("<y>", describe="other other mother")
    ).tokens
    assert list(token.pieces) == built.encode("<tool>", add_special_tokens=False).ids
    assert list(described.pieces) == built.encode("other other mother", add_special_tokens=False).ids
    assert [built.token_to_id(name) for name in described.piece_tokens] == list(described.pieces)


def test_truncation_and_padding_do_not_shorten_pieces(tmp_path: Path) -> None:
    built = byte_level()
    built.enable_truncation(2)
    built.enable_padding(length=40)
    plain = byte_level().encode("<|a long token|>").ids
    (token,) = assigned(folder(tmp_path, built), TokenRequest("<|a long token|>")).tokens
    assert list(token.pieces) == plain
    assert len(plain) > 2


def test_unknown_pieces_are_dropped_and_repeats_kept(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(10))
    some, none = assigned(place, TokenRequest("<x>", describe="w3 zzz w3 w5"), TokenRequest("<y>")).tokens
    assert some.pieces == (3, 3, 5)
    assert none.pieces == ()
    assert "no known piece" in none.notes[0]


def test_a_token_that_exists_needs_nothing(tmp_path: Path) -> None:
    built = byte_level()
    built.add_tokens([AddedToken("<x>", special=False)])
    known, flagged = assigned(folder(tmp_path, built), TokenRequest("<|endoftext|>"), TokenRequest("<x>")).tokens
    assert (known.id, known.status, known.is_new, known.pieces) == (0, "exists", False, ())
    assert flagged.notes == ("exists as an ordinary added token and stays one",)


def test_nothing_asked_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.surgery.tokens.assignment.LoadedTokenizer", None)
    place = folder(tmp_path, word_level(4))
    assert assign(place, place.tokenizer, ()) == Assignment(place.tokenizer)


def test_an_ordinary_entry_is_refused_unless_promoted(tmp_path: Path) -> None:
    place = folder(tmp_path, byte_level())
    refusal = refused(place, TokenRequest("other"))
    assert refusal.token == "other"
    assert "mother" in refusal.evidence[1]
    assert "--promote" in str(refusal.hint)
    (token,) = assigned(place, TokenRequest("other"), promote=True).tokens
    assert (token.status, token.id, token.is_new) == ("promoted", byte_level().token_to_id("other"), False)


def test_replace_takes_over_the_id(tmp_path: Path) -> None:
    built = byte_level()
    built.add_tokens([AddedToken("<|reserved_0|>", special=True)])
    place = folder(tmp_path, built)
    (token,) = assigned(place, TokenRequest("<|tool|>", replaces="<|reserved_0|>")).tokens
    assert (token.id, token.status, token.is_new) == (BYTE_LEVEL_IDS, "replaced", True)
    assert token.pieces


def test_replace_of_a_token_that_text_uses_is_refused(tmp_path: Path) -> None:
    assert (
        "ordinary vocabulary entry"
        in refused(folder(tmp_path, word_level(10)), TokenRequest("<x>", replaces="w3")).reason
    )


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([TokenRequest("")], "cannot be empty"),
        ([TokenRequest("  ")], "white space alone"),
        ([TokenRequest("\u200b\u200d")], "invisible characters alone"),
        ([TokenRequest("x" * 513)], "513 characters long"),
        ([TokenRequest("a\x00b")], "control character ('\\x00')"),
        ([TokenRequest("a\nb")], "control character ('\\n')"),
        ([TokenRequest("a\ud800")], "half a surrogate pair"),
        ([TokenRequest("a\u2028b")], "line separator"),
        ([TokenRequest("<x>"), TokenRequest("<x>", special=False)], "twice, with different special (true, false)"),
        ([TokenRequest("<x>", replaces="w1"), TokenRequest("<y>", replaces="w1")], "replaced twice"),
        ([TokenRequest("<x>", replaces="<y>"), TokenRequest("<y>")], "is requested itself"),
        ([TokenRequest("<x>", replaces="<nope>")], "has no such token"),
        ([TokenRequest("<unk>", replaces="w1")], "has an id already"),
        ([TokenRequest("<x>", role="end")], "is no role"),
        ([TokenRequest("<x>", role="eos"), TokenRequest("<y>", role="eos")], "given to both"),
    ],
    ids=range(15),
)
def test_a_request_that_makes_no_sense_is_one_line(tmp_path: Path, requests: list[TokenRequest], message: str) -> None:
    place = folder(tmp_path, word_level(10))
    with pytest.raises(UsageError) as caught:
        assign(place, place.tokenizer, requests)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_tokens_that_differ_by_white_space_alone_are_refused(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(10))
    with pytest.raises(UsageError, match="by white space alone"):
        assign(place, place.tokenizer, [TokenRequest("<a>"), TokenRequest(" <a>")])
    assigned(place, TokenRequest("<a>"), TokenRequest("<a> x"))


def test_tokens_that_are_one_once_normalized_are_refused(tmp_path: Path) -> None:
    place = folder(tmp_path, word_piece())
    with pytest.raises(UsageError, match="the same as '<a>' once it is normalized"):
        assign(place, place.tokenizer, [TokenRequest("<a>", normalized=True), TokenRequest("<A>", normalized=True)])
    assigned(place, TokenRequest("<a>"), TokenRequest("<A>"))


def test_overlapping_added_tokens_are_noted(tmp_path: Path) -> None:
    long, short = assigned(folder(tmp_path, byte_level()), TokenRequest("<|endoftext|>2"), TokenRequest("<|")).tokens
    assert any("overlaps with the added token '<|endoftext|>'" in note for note in long.notes)
    assert any("overlaps with the added token '<|endoftext|>2'" in note for note in short.notes)


def test_a_token_that_the_decoder_garbles_is_noted(tmp_path: Path) -> None:
    (token,) = assigned(folder(tmp_path, byte_level()), TokenRequest("<é>")).tokens
    assert "decoder turns it into" in token.notes[0]


def test_a_role_needs_a_token(tmp_path: Path) -> None:
    place = folder(tmp_path, byte_level())
    with pytest.raises(UsageError, match="'<x>' is no token; add it with --token"):
        assign(place, place.tokenizer, (), roles={"eos": "<x>"})
    result = assigned(
        place, TokenRequest("<x>"), TokenRequest("<y>", role="pad"), roles={"eos": "<x>", "bos": "<|endoftext|>"}
    )
    assert dict(result.role_ids) == {"eos": BYTE_LEVEL_IDS, "pad": BYTE_LEVEL_IDS + 1, "bos": 0}


def test_a_role_for_an_ordinary_entry_would_promote_it(tmp_path: Path) -> None:
    place = folder(tmp_path, byte_level())
    assert refused(place, roles={"eos": "other"}).token == "other"
    (token,) = assigned(place, roles={"eos": "other"}, promote=True).tokens
    assert token.status == "promoted"


def test_a_named_special_token_without_an_id_is_refused_unless_it_is_added(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(4), tokenizer_config={"pad_token": "[PAD]"})
    assert "[PAD]" in refused(place, TokenRequest("<x>")).reason
    result = assigned(place, TokenRequest("<x>"), TokenRequest("[PAD]"))
    assert [token.id for token in result.tokens] == [4, 5]


def test_contradicting_or_missing_files_are_errors(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(4), added_tokens={"<x>": 3})
    with pytest.raises(TokenizerError, match="id 3 stands for both"):
        assign(place, place.tokenizer, [TokenRequest("<y>")])
    with pytest.raises(TokenizerError, match="no tokenizer that can be read"):
        assign(place, None, [TokenRequest("<y>")])


def test_a_file_that_the_library_does_not_load_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordLevel", "vocab": {"a": 0}}}')
    with pytest.raises(TokenizerError, match="does not load it"):
        assign(Folder(tmp_path), Folder(tmp_path).tokenizer, [TokenRequest("<y>")])


def test_old_added_tokens_outside_the_model_have_pieces_too(tmp_path: Path) -> None:
    built = byte_level()
    built.add_special_tokens(["<image>"])
    result = assigned(folder(tmp_path, built), TokenRequest("<x>"))
    assert list(result.pieces_of(BYTE_LEVEL_IDS)) == byte_level().encode("<image>").ids
    assert result.pieces_of(5) == ()


def test_a_unigram_vocabulary_with_two_ids_for_a_piece_counts_both(tmp_path: Path) -> None:
    data = json.loads(unigram().to_str())
    data["model"]["vocab"].insert(9, data["model"]["vocab"][20])
    built = Tokenizer.from_str(json.dumps(data))
    built.add_special_tokens(["<old>"])
    place = folder(tmp_path, built)
    assert place.tokenizer is not None
    size = len(data["model"]["vocab"])
    assert (place.tokenizer.token_to_id["<old>"], place.tokenizer.holes, place.tokenizer.findings) == (size, (), ())
    (token,) = assigned(place, TokenRequest("<x>")).tokens
    assert token.id == size + 1


def test_metaspace_and_declared_decoder_agree(tmp_path: Path) -> None:
    built = metaspace()
    place = folder(tmp_path, built, tokenizer_config={"added_tokens_decoder": decoder_entries(built)})
    assert assigned(place, TokenRequest("<x>")).tokens[0].id == built.get_vocab_size()


@pytest.mark.parametrize("known", ["tokenizer_config", "tokenizer"])
def test_a_token_that_only_one_reader_knows_stops_new_ids(tmp_path: Path, known: str) -> None:
    built = byte_level()
    entries = decoder_entries(built)
    built.add_special_tokens(["<odd>"])
    config = {"added_tokens_decoder": entries if known == "tokenizer" else decoder_entries(built)}
    place = folder(tmp_path, built if known == "tokenizer" else byte_level(), tokenizer_config=config)
    assert "list different tokens" in refused(place, TokenRequest("<x>")).reason


def test_a_named_special_token_of_the_models_vocabulary_exists(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(10), tokenizer_config={"pad_token": "w3"})
    (token,) = assigned(place, TokenRequest("w3")).tokens
    assert (token.id, token.status) == (3, "exists")


def test_requests_that_are_the_same_count_once(tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(10))
    result = assigned(place, TokenRequest("<x>"), TokenRequest("<y>"), TokenRequest("<x>"))
    assert [token.content for token in result.tokens] == ["<x>", "<y>"]
    place = padded(tmp_path)
    twice = [TokenRequest("<z>", replaces="<pad>", role="unk")] * 2
    assert [token.status for token in assigned(place, *twice).tokens] == ["replaced"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"describe": "a text"}, "describe (none, 'a text')"),
        ({"role": "eos", "lstrip": True}, "lstrip (false, true), role (none, 'eos')"),
    ],
    ids=["describe", "role and flag"],
)
def test_requests_for_one_token_that_differ_are_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    place = folder(tmp_path, word_level(10))
    with pytest.raises(UsageError) as caught:
        assign(place, place.tokenizer, [TokenRequest("<x>"), TokenRequest("<x>", **changed)])
    assert str(caught.value).endswith(f"with different {said}")


def test_a_token_that_loses_its_role_is_named(tmp_path: Path) -> None:
    place = padded(tmp_path)
    result = assigned(place, TokenRequest("<x>"), roles={"pad": "<x>", "eos": "<x>"})
    assert result.notes == ("'<pad>' drops the role pad, which '<x>' takes; it keeps its id 10",)
    assert assigned(place, TokenRequest("<x>"), roles={"pad": "<pad>"}).notes == ()


def test_a_replaced_token_hands_its_roles_on_unless_they_go_elsewhere(tmp_path: Path) -> None:
    place = padded(tmp_path)
    replaced = TokenRequest("<x>", replaces="<pad>")
    assert "takes over the role pad of '<pad>', which is gone" in assigned(place, replaced).tokens[0].notes
    result = assigned(place, replaced, TokenRequest("<y>"), roles={"pad": "<y>"})
    assert not any("takes over" in note for note in result.tokens[0].notes)
    assert result.notes == ("the role pad of '<pad>' goes to '<y>', not to '<x>', which takes its id",)


def padded(path: Path) -> Folder:
    """Ten words and an added `<pad>`, id 10, with that role."""
    tokenizer = word_level(10)
    tokenizer.add_special_tokens(["<pad>"])
    return folder(path, tokenizer, tokenizer_config={"pad_token": "<pad>"})
