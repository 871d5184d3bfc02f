"""`ConfigAsIntended`: config.json says what the plan wants, and nothing else changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.promises.pairs import Pair
from tests.surgery.shelf import config_of, with_config
from vocabsurgeon.surgery.promises import ConfigAsIntended


@pytest.mark.parametrize("operation", ["extend", "tie", "untie"])
def test_holds_of_an_honest_result(operation: str, tmp_path: Path) -> None:
    assert Pair(operation, ConfigAsIntended, tmp_path).holds()


BREAKS: dict[str, dict[str, Any]] = {
    "the size": {"vocab_size": 65},
    "a number for a flag": {"tie_word_embeddings": 0},
    "a float for a number": {"hidden_size": 16.0},
    "another value": {"rms_norm_eps": 1e-5},
    "a value lost": {"hidden_act": None},
    "a value more": {"more": 1},
    "an object for a value": {"rms_norm_eps": {}},
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=list(BREAKS))
def test_fails_where_a_value_differs(change: dict[str, Any], tmp_path: Path) -> None:
    pair = Pair("extend", ConfigAsIntended, tmp_path)
    with_config(pair.out, **change)
    assert next(iter(change)) in pair.broken()


def test_fails_where_a_value_below_differs(tmp_path: Path) -> None:
    pair = Pair("extend", ConfigAsIntended, tmp_path)
    with_config(pair.out, rope_parameters={**config_of(pair.out)["rope_parameters"], "rope_theta": 1.5})
    assert "rope_parameters.rope_theta" in pair.broken()


def test_layout_of_the_text_does_not_count(tmp_path: Path) -> None:
    pair = Pair("extend", ConfigAsIntended, tmp_path)
    with_config(pair.out)
    assert pair.holds()
