"""From option texts to a request: what is said twice, by two options or by an option and the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.tokens import TokenRequest
from vocabsurgeon.surgery.tokens.requests import distinct_requests


def written(folder: Path, *entries: dict[str, Any]) -> Path:
    """A tokens file with `entries`."""
    path = folder / "tokens.json"
    path.write_text(json.dumps(entries))
    return path


def test_what_is_said_twice_in_the_same_way_counts_once(tmp_path: Path) -> None:
    file = written(tmp_path, {"content": "<a>", "replaces": "<old>"}, {"content": "<b>"})
    request = extend_request(["<a>", "<a>", "<b>"], file, replaces=["<old>=<a>", "<old>=<a>"], describe=["<b>=b"] * 2)
    assert distinct_requests(request.tokens) == (
        TokenRequest("<a>", replaces="<old>"),
        TokenRequest("<b>", describe="b"),
    )


@pytest.mark.parametrize(
    ("entry", "options", "message"),
    [
        ({"replaces": "<old>"}, {"replaces": ["<other>=<a>"]}, "replace '<old>' by the file"),
        ({"describe": "one"}, {"describe": ["<a>=two"]}, "described otherwise by the file"),
        ({}, {"replaces": ["<old>=<a>", "<other>=<a>"]}, "replace two tokens"),
    ],
)
def test_what_is_said_twice_in_different_ways_is_refused(
    entry: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        extend_request((), written(tmp_path, {"content": "<a>", **entry}), **options)
