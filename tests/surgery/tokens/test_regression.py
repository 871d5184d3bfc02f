"""The regression finds each fault it promises to find: here each is made on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, normalizers

from tests.models.tokenizers import KINDS, Folder, byte_level, folder, metaspace, word_level
from vocabsurgeon.surgery.tokens import AssignedToken, Assignment, TokenRequest, assign
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.surgery.tokens.loaded import LoadedTokenizer
from vocabsurgeon.surgery.tokens.regression import Finding, compare_tokenizers
from vocabsurgeon.surgery.tokens.sample import SAMPLE


def pair(tmp_path: Path, built: Tokenizer, *requests: TokenRequest) -> tuple[Folder, Folder, tuple[AssignedToken, ...]]:
    before = folder(tmp_path / "a", built)
    assignment = assign(before, before.tokenizer, requests)
    assert isinstance(assignment, Assignment)
    return before, before.copied_to(tmp_path / "b", tokenizer_edits(before, assignment)), assignment.tokens


def spoiled(place: Folder, change: Callable[[dict[str, Any]], Any]) -> Folder:
    """The folder with its tokenizer.json changed."""
    data = place.read_json("tokenizer.json")
    change(data)
    (place.root / "tokenizer.json").write_text(json.dumps(data))
    return Folder(place.root)


def checks(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.check for finding in findings}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_where_all_is_kept(tmp_path: Path, kind: str) -> None:
    before, after, new = pair(tmp_path, KINDS[kind](), TokenRequest("<x>"), TokenRequest("<Y>", lstrip=True))
    assert compare_tokenizers(before, after, new) == ()


def test_a_text_that_changes_its_ids_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, byte_level(), TokenRequest("<x>"))
    spoiled(after, lambda data: data["model"]["merges"].pop(0))
    assert checks(compare_tokenizers(before, Folder(after.root), new)) == {"old-text"}


def test_a_normalizer_that_changed_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, byte_level(), TokenRequest("<x>"))
    spoiled(after, lambda data: data.update(normalizer={"type": "NFC"}))
    assert checks(compare_tokenizers(before, Folder(after.root), new)) == {"old-text"}


def test_an_old_id_with_another_token_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, word_level(10), TokenRequest("<x>"))
    spoiled(after, lambda data: data["model"]["vocab"].update(w3=4, w4=3))
    findings = compare_tokenizers(before, Folder(after.root), new)
    assert Finding("old-ids", "id 3 was 'w3' and is now 'w4'") in findings


def test_a_new_id_other_than_declared_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, word_level(10), TokenRequest("<x>"), TokenRequest("<y>"))
    spoiled(after, lambda data: data["added_tokens"].reverse())
    assert "declared-ids" in checks(compare_tokenizers(before, Folder(after.root), new))


def test_a_new_token_that_is_missing_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, word_level(10), TokenRequest("<x>"))
    spoiled(after, lambda data: data["added_tokens"].clear())
    assert checks(compare_tokenizers(before, Folder(after.root), new)) == {"declared-ids", "new-token"}


def test_a_token_that_is_not_cut_out_of_a_word_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, metaspace(), TokenRequest("<x>"))
    spoiled(after, lambda data: data["added_tokens"][-1].update(single_word=True))
    findings = compare_tokenizers(before, Folder(after.root), new)
    assert Finding("new-token", "'a<x>a' does not hold '<x>' as one id") in findings


def test_a_special_token_that_is_read_otherwise_is_found(tmp_path: Path) -> None:
    built = byte_level()
    built.add_tokens([AddedToken("<old>", special=True)])
    before, after, new = pair(tmp_path, built, TokenRequest("<x>"))
    spoiled(after, lambda data: next(e for e in data["added_tokens"] if e["content"] == "<old>").update(rstrip=True))
    assert checks(compare_tokenizers(before, Folder(after.root), new)) == {"old-text"}


def test_a_lost_tokenizer_is_found(tmp_path: Path) -> None:
    before = folder(tmp_path / "a", word_level(4))
    (tmp_path / "b").mkdir()
    assert checks(compare_tokenizers(before, Folder(tmp_path / "b"))) == {"old-ids"}


def test_equal_files_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder(tmp_path / "a", word_level(4))
    after = before.copied_to(tmp_path / "b")
    monkeypatch.setattr("vocabsurgeon.surgery.tokens.regression.LoadedTokenizer", None)
    assert compare_tokenizers(before, after) == ()


def test_the_sample_has_what_tokenizers_trip_over() -> None:
    text = "".join(SAMPLE)
    for part in (
        "\r\n",
        "\t",
        "    ",
        "\u200d",
        "\u0301",
        "\ufeff",
        "玻",
        "ا",
        "나",
        "😀",
        "https://",
        "12345",
        "->",
        "मैं",
    ):
        assert part in text
    assert all(SAMPLE)


def test_a_token_that_brings_other_ids_along_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after, new = pair(tmp_path, word_level(10), TokenRequest("<x>"))
    ids = LoadedTokenizer.ids
    monkeypatch.setattr(LoadedTokenizer, "ids", lambda self, text: ids(self, text) + ((1,) if text == "<x>" else ()))
    assert Finding("new-token", "'<x>' alone gives [10, 1], not its id") in compare_tokenizers(before, after, new)


def test_a_token_that_a_normalizer_lets_other_text_reach_is_found(tmp_path: Path) -> None:
    built = word_level(ids=(0, 1, 2, 4))
    built.normalizer = normalizers.Lowercase()
    before, after, new = pair(tmp_path, built, TokenRequest("zz"))
    assert compare_tokenizers(before, after, new) == (Finding("new-token", "'ZZ' is read as 'zz'"),)


def test_a_normalized_token_that_needs_a_space_before_it_is_found(tmp_path: Path) -> None:
    before, after, new = pair(tmp_path, metaspace(), TokenRequest("<x>", normalized=True))
    assert checks(compare_tokenizers(before, after, new)) == {"new-token"}
