"""A JSON document edited as text: the value changes as asked, and every byte outside the edit stays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocabsurgeon.checkpoint.json_text import JsonText, Path
from vocabsurgeon.errors import ConfigError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)
LAYOUTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)
NEWLINES = st.sampled_from(["\n", "\r\n"])


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    value = draw(OBJECTS)
    newline = draw(NEWLINES)
    text = json.dumps(value, **draw(LAYOUTS)).replace("\n", newline)
    return text + draw(st.sampled_from(["", newline, "  "])), value


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in pairs for found in paths_of(inner, (*path, key)))]


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def kept_around(before: str, after: str) -> int:
    """How many characters the common beginning and end of both texts hold together."""
    limit = min(len(before), len(after))
    start = next((i for i in range(limit) if before[i] != after[i]), limit)
    end = next((i for i in range(limit - start) if before[-1 - i] != after[-1 - i]), limit - start)
    return start + end


@settings(max_examples=150, deadline=None)
@given(documents(), VALUES, st.randoms(use_true_random=False))
def test_set_replaces_one_value_and_keeps_every_other_byte(
    document: tuple[str, Any], new: Any, rng: random.Random
) -> None:
    text, value = document
    choices = [path for path in paths_of(value) if path]
    if not choices:
        return
    path = rng.choice(choices)
    edited = JsonText.parse(text, "x.json").set(path, new)
    start = JsonText.parse(text, "x.json")._find(path)
    assert start is not None
    raw = text.encode()
    assert edited.raw.startswith(raw[: start.value])
    assert edited.raw.endswith(raw[start.end :])
    assert at(edited.value, path) == new
    at(value, path[:-1])[path[-1]] = new
    assert edited.value == value


@settings(max_examples=150, deadline=None)
@given(documents(), OBJECTS)
def test_update_adds_keys_at_the_end_and_keeps_every_other_byte(document: tuple[str, Any], new: dict[str, Any]) -> None:
    text, value = document
    new = {key: item for key, item in new.items() if key not in value}
    edited = JsonText.parse(text, "x.json").update((), new)
    assert list(edited.value.items()) == [*value.items(), *new.items()]
    if value:
        assert kept_around(text, edited.text) >= len(text)


@settings(max_examples=150, deadline=None)
@given(documents(), st.lists(VALUES, max_size=3), st.randoms(use_true_random=False))
def test_extend_appends_and_keeps_every_other_byte(
    document: tuple[str, Any], new: list[Any], rng: random.Random
) -> None:
    text, value = document
    choices = [path for path in paths_of(value) if isinstance(at(value, path), list)]
    if not choices:
        return
    path = rng.choice(choices)
    edited = JsonText.parse(text, "x.json").extend(path, new)
    if at(value, path):
        assert kept_around(text, edited.text) >= len(text)
    at(value, path).extend(new)
    assert edited.value == value


@settings(max_examples=100, deadline=None)
@given(documents(), st.randoms(use_true_random=False), TEXTS)
def test_remove_and_rename_touch_one_member(document: tuple[str, Any], rng: random.Random, name: str) -> None:
    text, value = document
    keys = [path for path in paths_of(value) if path and isinstance(at(value, path[:-1]), dict)]
    if not keys:
        return
    path = rng.choice(keys)
    parsed = JsonText.parse(text, "x.json")
    if name not in at(value, path[:-1]):
        renamed = parsed.rename(path, name)
        assert at(renamed.value, (*path[:-1], name)) == at(value, path)
        assert list(at(renamed.value, path[:-1]).values()) == list(at(value, path[:-1]).values())
    removed = parsed.remove(path)
    del at(value, path[:-1])[path[-1]]
    assert removed.value == value


@pytest.mark.parametrize("indent", [1, 2, 4, "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_is_added_is_laid_out_as_json_dumps_would(indent: int | str, newline: str) -> None:
    value = {"a": 1, "list": [{"x": 1}], "empty": [], "none": {}}
    text = json.dumps(value, indent=indent).replace("\n", newline)
    edited = JsonText.parse(text, "x.json").extend(("list",), [{"x": [2, 3]}]).set(("new",), {"k": [1, {"é": None}]})
    edited = edited.extend(("empty",), [5]).update(("none",), {"z": {"y": 1}})
    wanted = {
        "a": 1,
        "list": [{"x": 1}, {"x": [2, 3]}],
        "empty": [5],
        "none": {"z": {"y": 1}},
        "new": {"k": [1, {"é": None}]},
    }
    assert edited.text == json.dumps(wanted, indent=indent, ensure_ascii=False).replace("\n", newline)


def test_a_list_on_one_line_stays_on_one_line() -> None:
    text = '{\n  "architectures": ["A"],\n  "eos": [1, 2],\n  "deep": [{"a":1}]\n}\n'
    edited = JsonText.parse(text, "x.json").extend(("architectures",), ["B"]).extend(("eos",), [3])
    edited = edited.extend(("deep",), [{"a": 2}])
    assert edited.text == '{\n  "architectures": ["A", "B"],\n  "eos": [1, 2, 3],\n  "deep": [{"a":1}, {"a":2}]\n}\n'


def test_a_compact_document_stays_compact() -> None:
    assert JsonText.parse('{"a":[],"b":{"c":1}}', "x").set(("b", "d"), [1, {"e": 2}]).extend(("a",), [1, 2]).text == (
        '{"a":[1,2],"b":{"c":1,"d":[1,{"e":2}]}}'
    )


def test_escapes_follow_the_document() -> None:
    assert JsonText.parse('{"a": "\\u00e9"}', "x").set(("b",), "ü").text == '{"a": "\\u00e9", "b": "\\u00fc"}'
    assert JsonText.parse('{"a": "é"}', "x").set(("b",), "ü").text == '{"a": "é", "b": "ü"}'


def test_numbers_that_python_would_rewrite_are_kept() -> None:
    text = '{"a": 1E5, "b": 1.0000000000000000000001, "c": -0, "limit": [0.0, Infinity], "z": 1}'
    edited = JsonText.parse(text, "x").set(("z",), 2)
    assert edited.text == text.replace('"z": 1', '"z": 2')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "is not a JSON object"),
        ("", "line 1, column 1"),
        ('{"a": 1,\n "b": [1,}', "line 2, column 10"),
        ('{"a": "é", b}', "line 1, column 12"),
        ('{"a": "\\ud800"}', "half a surrogate pair"),
        ("\ufeff{}", "byte order mark"),
        (b"\xff{}", "not UTF-8"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}", "cannot be read"),
        ('{"a": 1} x', "Extra data"),
    ],
    ids=range(10),
)
def test_a_bad_document_is_one_line_with_file_and_place(text: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JsonText.parse(text, "x.json")
    assert str(caught.value).startswith("x.json: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"a": [1, 2', '{"a": "', '{"a": {}} 1', "[]", '{"a": [{}, []}}]'])
def test_an_outline_finds_a_file_that_is_cut_off(text: str) -> None:
    with pytest.raises(ConfigError):
        JsonText.outline(text, "x.json")


@settings(max_examples=150, deadline=None)
@given(documents())
def test_an_outline_reads_each_part_as_json_does(document: tuple[str, Any]) -> None:
    text, value = document
    outline = JsonText.outline(text, "x.json")
    for path in paths_of(value):
        assert outline.read(path) == at(value, path)


@settings(max_examples=60, deadline=None)
@given(documents(), st.randoms(use_true_random=False))
def test_an_outline_of_broken_text_never_ends_in_another_error(document: tuple[str, Any], rng: random.Random) -> None:
    raw = bytearray(document[0].encode())
    for _ in range(2):
        raw[rng.randrange(len(raw))] = rng.choice(b'"\\{}[],: x')
    try:
        JsonText.outline(bytes(raw), "x.json").read(("a",))
        JsonText.parse(bytes(raw), "x.json")
    except ConfigError:
        pass


def test_a_key_that_stands_twice_is_not_edited() -> None:
    document = JsonText.parse('{"a": 1, "a": 2, "b": 3}', "x.json")
    assert document.set(("b",), 4).text == '{"a": 1, "a": 2, "b": 4}'
    with pytest.raises(ConfigError, match="holds the key a twice"):
        document.set(("a",), 4)


def test_missing_parents_and_wrong_kinds_are_errors() -> None:
    document = JsonText.parse('{"a": {"b": 1}, "l": [1]}', "x.json")
    edits: list[Callable[[], object]] = [
        lambda: document.set(("c", "d"), 1),
        lambda: document.extend(("a",), [1]),
        lambda: document.update(("l",), {"x": 1}),
        lambda: document.rename(("c",), "d"),
        lambda: document.rename(("a",), "l"),
        lambda: document.set(("a",), float("nan")),
        lambda: document.set(("a",), "\ud800"),
        lambda: document.set(("a",), object()),
    ]
    for edit in edits:
        with pytest.raises(ConfigError):
            edit()
    assert document.remove(("c",)) is document
    assert document.read(("c", "d"), 7) == 7


def test_merges_are_stepped_over() -> None:
    """The scanner's shortcut for innermost arrays must end where the array ends, whatever the strings hold."""
    merges = [["a", "b"], ["]", '["'], ["\\", '"'], [], ["{", "}"], ["x"] * 40, [["deep"]]] * 700
    text = json.dumps({"model": {"merges": merges, "n": 1}, "after": 2})
    outline = JsonText.outline(text, "x.json")
    assert outline.read(("model", "n")) == 1
    assert outline.read(("after",)) == 2
    assert outline.read(("model", "merges")) == merges


def test_an_empty_document_takes_the_line_ends_it_has() -> None:
    assert JsonText.parse("{\r\n}\r\n", "x.json").set(("a",), [1]).text == '{\r\n  "a": [\r\n    1\r\n  ]\r\n}\r\n'
    assert JsonText.parse("{}\n", "x.json").set(("a",), 1).text == '{\n  "a": 1\n}\n'
