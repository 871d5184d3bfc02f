"""`EditedFileAsPlanned`: an edited JSON file differs from the source's by the planned changes alone, as parsed data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.promises.pairs import Pair, edit_json
from vocabsurgeon.checkpoint.json_changes import JsonChange
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.surgery.promises import EditedFileAsPlanned
from vocabsurgeon.surgery.promises.written_files import _heads, changed, json_differences, parse_json


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("extend", EditedFileAsPlanned, tmp_path).holds()


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a key more": (edit_json("tokenizer.json", lambda d: d.update(more=None)), "more = None appeared"),
    "a key gone": (edit_json("tokenizer.json", lambda d: d.pop("decoder")), "decoder is gone"),
    "a value of another type": (
        edit_json("tokenizer.json", lambda d: d["added_tokens"][-1].update(special=1)),
        "not True",
    ),
    "a list turned round": (edit_json("tokenizer.json", lambda d: d["added_tokens"].reverse()), "added_tokens.0"),
    "an entry more": (edit_json("tokenizer.json", lambda d: d["added_tokens"].append({})), "entries, not"),
    "the file gone": (lambda out: (out / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "no JSON": (lambda out: (out / "tokenizer.json").write_text("{"), "cannot be compared"),
    "a key twice": (
        lambda out: (out / "tokenizer.json").write_text('{"model": 1,' + (out / "tokenizer.json").read_text()[1:]),
        "duplicate keys",
    ),
}


@pytest.mark.parametrize(("change", "told"), BREAKS.values(), ids=list(BREAKS))
def test_fails_where_more_or_less_than_planned_changed(
    change: Callable[[Path], object], told: str, tmp_path: Path
) -> None:
    pair = Pair("extend", EditedFileAsPlanned, tmp_path)
    change(pair.out)
    assert told in pair.broken()


def test_layout_is_not_meaning(tmp_path: Path) -> None:
    pair = Pair("extend", EditedFileAsPlanned, tmp_path)
    edit_json("tokenizer.json", lambda document: None)(pair.out)
    assert pair.holds()


EDITS: dict[str, Callable[[JsonText], JsonText]] = {
    "set": lambda d: d.set(("a", "b"), [1, {"x": None}]),
    "set anew": lambda d: d.set(("a", "new"), True),
    "update": lambda d: d.update(("a",), {"b": 2, "c": 3, "d": 4}),
    "extend": lambda d: d.extend(("list",), ["x", "y"]).extend(("list",), []),
    "remove": lambda d: d.remove(("list", 0)).remove(("a", "b")).remove(("absent",)),
    "rename": lambda d: d.rename(("a", "b"), "z").set(("a", "z"), 9),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=list(EDITS))
def test_the_changes_of_an_edit_are_what_it_did(edit: Callable[[JsonText], JsonText]) -> None:
    source = JsonText.parse('{"a": {"b": 1, "c": [2]}, "list": ["p", "q"]}', "x.json")
    after = edit(source)
    wanted = changed(parse_json(source.raw), after.changes)
    assert wanted == json.loads(after.raw) and not list(json_differences(wanted, parse_json(after.raw)))


LARGE = json.dumps({"added_tokens": [], "model": {"vocab": {f"w{n}": n for n in range(90_000)}}}).encode()


def test_a_large_file_is_compared_up_to_where_both_are_the_same() -> None:
    new = LARGE.replace(b'"added_tokens": []', b'"added_tokens": [1]')
    heads = _heads(LARGE, new)
    assert heads is not None and len(heads[1]) < 100
    assert _heads(b"{}", b"{}") is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LARGE, LARGE.replace(b'"w5": 5,', b'"w5": 6,')),
        (LARGE, LARGE.replace(b'"added_tokens": []', b'"added_tokens": [7]')),
        (LARGE, LARGE[:-1] + b', "decoder": null}'),
        (LARGE.replace(b"w89990", b"model"), LARGE.replace(b"w89990", b"model").replace(b'"w3"', b'"w3\\u0041"')),
        (LARGE, LARGE.replace(b'{"added', b'{"model": 1, "added')),
    ],
)
def test_fails_on_any_difference_in_a_large_file(old: bytes, new: bytes, tmp_path: Path) -> None:
    pair = Pair("extend", EditedFileAsPlanned, tmp_path)
    (pair.source / "tokenizer.json").write_bytes(old)
    (pair.out / "tokenizer.json").write_bytes(new)
    pair.promises = [EditedFileAsPlanned("tokenizer.json", ())]
    assert pair.broken()
    (pair.out / "tokenizer.json").write_bytes(old)
    assert pair.holds()


def test_fails_where_the_changes_do_not_fit(tmp_path: Path) -> None:
    pair = Pair("extend", EditedFileAsPlanned, tmp_path)
    pair.promises = [EditedFileAsPlanned("tokenizer.json", (JsonChange("append", ("nothing",), [1]),))]
    assert "cannot be compared" in pair.broken()
