"""Tokens files and option texts: every format gives the same requests, and a bad entry is one line with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.tokens import TokenRequest
from vocabsurgeon.surgery.tokens.file import parse_pair, parse_role, read_requests

ENTRY = '{"content": "<b é>", "special": false, "describe": "some text", "role": "eos", "lstrip": true}'
WANTED = (TokenRequest("<a>"), TokenRequest("<b é>", special=False, describe="some text", role="eos", lstrip=True))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "t.json",
            '["<a>", ' + ENTRY + "]",
        ),
        (
            "t.json",
            '{"tokens": ["<a>", ' + ENTRY + "]}",
        ),
        (
            "t.jsonl",
            '"<a>"\n\n' + ENTRY + "\r\n",
        ),
        ("t.yaml", "- <a>\n- content: <b é>\n  special: false\n  describe: some text\n  role: eos\n  lstrip: true\n"),
        ("T.YML", "tokens:\n- '<a>'\n- {content: <b é>, special: no, describe: some text, role: eos, lstrip: yes}\n"),
    ],
    ids=range(5),
)
def test_every_format_gives_the_same_requests(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert read_requests(tmp_path / name) == WANTED


def test_a_text_file_is_a_token_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes("\ufeff<a>\r\n\n  two words \n# is a token too".encode())
    assert [request.content for request in read_requests(path)] == ["<a>", "two words", "# is a token too"]
    assert not any(request.special for request in read_requests(path, special=False))


def test_an_entry_decides_for_itself_whether_it_is_special(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('["<a>", {"content": "<b>", "special": true}]')
    assert [request.special for request in read_requests(path, special=False)] == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"<a>", "is no tokens file"),
        ("t.txt", b"\n \n", "names no token"),
        ("t.txt", b"\xff", "not UTF-8"),
        ("t.json", b"[", "cannot be read"),
        ("t.json", b"3", "no list of tokens"),
        ("t.json", b'[["<a>"]]', "entry 1: ['<a>'] is neither"),
        ("t.json", b'[{"special": true}]', "entry 1: has no content"),
        ("t.json", b'["<a>", {"content": "<b>", "specal": true}]', "entry 2: unknown field 'specal'"),
        ("t.json", b'[{"content": "<b>", "special": 1}]', "special is 1, not true or false"),
        ("t.json", b'[{"content": "<b>", "role": null}]', "role is None, not a text"),
        ("t.json", b"[" * 100_000, "nested too deeply"),
        ("t.jsonl", b'"<a>"\n{', "line 2 is not JSON"),
        ("t.yaml", b"a: [", "cannot be read"),
        ("t.yaml", b"- yes", "entry 1: True is neither"),
        ("t.yaml", b"!!python/object/apply:os.getcwd []", "cannot be read"),
    ],
    ids=range(15),
)
def test_a_bad_file_is_one_line_with_its_place(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_requests(tmp_path / name)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_requests(tmp_path / "t.txt")


def test_pairs_split_where_the_left_side_is_known() -> None:
    assert parse_pair("<x>=a=b", "--describe") == ("<x>", "a=b")
    assert parse_pair("<x=1>=a=b", "--describe", {"<x=1>"}) == ("<x=1>", "a=b")
    assert parse_pair("==>=b", "--describe") == ("=", ">=b")
    for text in ("", "=", "a=", "=b", "ab"):
        with pytest.raises(UsageError, match="--describe: needs two texts"):
            parse_pair(text, "--describe")


def test_roles_are_checked() -> None:
    assert parse_role("eos=<x>") == ("eos", "<x>")
    with pytest.raises(UsageError, match="roles are bos, eos, pad, unk, sep, cls, mask"):
        parse_role("end=<x>")
