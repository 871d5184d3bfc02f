"""`TokenizerKept`: old ids mean what they meant, old text gives the ids it gave, new tokens are one id each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.promises.pairs import Pair
from vocabsurgeon.surgery.promises import TokenizerKept


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert Pair("extend", TokenizerKept, tmp_path).holds()


def _swapped(document: dict[str, Any]) -> None:
    vocab = document["model"]["vocab"]
    vocab["w5"], vocab["w6"] = 6, 5


BREAKS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "two ids swapped": (_swapped, "old-ids"),
    "a token lost": (lambda document: document["model"]["vocab"].pop("w63"), "old-ids"),
    "another pre-tokenizer": (lambda document: document.update(pre_tokenizer=None), "old-text"),
    "the new token lost": (lambda document: document["added_tokens"].pop(), "declared-ids"),
    "the new token under another id": (lambda document: document["added_tokens"][0].update(id=70), "declared-ids"),
    "a new token only as a word": (lambda document: document["added_tokens"][0].update(single_word=True), "new-token"),
}


@pytest.mark.parametrize(("change", "check"), BREAKS.values(), ids=list(BREAKS))
@pytest.mark.parametrize("loaded", [True, False], ids=["baseline of the plan", "baseline loaded again"])
def test_fails_where_the_tokenizer_differs(
    change: Callable[[dict[str, Any]], object], check: str, loaded: bool, tmp_path: Path
) -> None:
    pair = Pair("extend", TokenizerKept, tmp_path)
    if not loaded:
        pair.promises = [
            replace(promise, baseline=None) for promise in pair.promises if isinstance(promise, TokenizerKept)
        ]
        assert pair.holds()
    file = pair.out / "tokenizer.json"
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    assert check in pair.broken()


def test_fails_where_the_tokenizer_is_gone(tmp_path: Path) -> None:
    pair = Pair("extend", TokenizerKept, tmp_path)
    (pair.out / "tokenizer.json").unlink()
    (pair.out / "tokenizer_config.json").unlink()
    assert "no tokenizer.json" in pair.broken()
