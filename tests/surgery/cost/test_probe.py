"""Probe text: the built-in sample holds what it promises, and a file of the user's is read or refused in one line."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.cost import probe as module
from vocabsurgeon.surgery.cost.probe import Probe


def test_the_built_in_sample_is_in_many_scripts_and_of_a_bounded_length() -> None:
    probe = Probe.builtin()
    text = " ".join(probe.passages)
    scripts = {unicodedata.name(letter).split()[0] for letter in text if letter.isalpha()}
    assert {"LATIN", "CYRILLIC", "CJK", "HIRAGANA", "HANGUL", "ARABIC", "DEVANAGARI"} <= scripts
    assert len(probe.passages) >= 25 and 4_000 < len(text) < 16_000
    assert any("def " in passage for passage in probe.passages) and len(probe.prompts) == 3


def _read(tmp_path: Path, content: bytes) -> Probe:
    (tmp_path / "probe.txt").write_bytes(content)
    return Probe.read(tmp_path / "probe.txt")


@pytest.mark.parametrize(
    ("content", "passages"),
    [
        ("one\ntwo\r\nthree", ("one", "two", "three")),
        ("one\ntwo\n\nthree\n  \n\nfour\n", ("one\ntwo", "three", "four")),
        ("\n\none\ntwo\n\n", ("one", "two")),
        ("\ufeff  indented\nß", ("  indented", "ß")),
    ],
)
def test_a_file_is_paragraphs_where_it_has_blank_lines_else_lines(
    tmp_path: Path, content: str, passages: tuple[str, ...]
) -> None:
    probe = _read(tmp_path, content.encode())
    assert probe.passages == passages
    assert probe.prompts == passages[:3] and probe.source == str(tmp_path / "probe.txt")


def test_of_a_large_file_the_beginning_is_read_to_the_end_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    assert _read(tmp_path, b"one\ntwo\nthree\n").passages == ("one", "two")
    assert _read(tmp_path, "abcdefghiß and more".encode()).passages == ("abcdefghi",)


@pytest.mark.parametrize(("content", "why"), [(b" \n\n", "no text"), (b"caf\xe9", "not UTF-8")])
def test_a_file_without_text_is_an_expected_error(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _read(tmp_path, content)


@pytest.mark.parametrize("name", ["missing.txt", ".", "nul\x00"])
def test_a_file_that_cannot_be_read_is_an_expected_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        Probe.read(tmp_path / name)
