"""Roles as ids in config.json and generation_config.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.surgery.tokens import AssignedToken, Assignment
from vocabsurgeon.surgery.tokens.requests import TokenRequest
from vocabsurgeon.surgery.tokens.role_values import generation_config, role_config_values

X = AssignedToken("<x>", 9, "added", (), (), TokenRequest("<x>"))


def values(config: dict[str, Any], **roles: str) -> dict[Any, Any]:
    return role_config_values(Config.parse(json.dumps(config)), Assignment(None, (X,), roles))


def test_every_level_that_states_an_id_is_written() -> None:
    config = {"eos_token_id": 2, "text_config": {"eos_token_id": [2, 3]}, "vision_config": {"eos_token_id": None}}
    assert values(config, eos="<x>") == {("eos_token_id",): 9, ("text_config", "eos_token_id"): [2, 3, 9]}


def test_the_root_is_written_where_no_level_states_one() -> None:
    assert values({"text_config": {}}, pad="<x>") == {("pad_token_id",): 9}
    assert values({"text_config": {"pad_token_id": 0}}, pad="<x>") == {("text_config", "pad_token_id"): 9}
    assert values({}, mask="<x>") == {}


def test_values_that_are_right_are_left_out() -> None:
    assert values({"eos_token_id": 9}, eos="<x>") == {}
    assert values({"eos_token_id": [2, 9]}, eos="<x>") == {}
    assert values({"eos_token_id": 2}) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"eos_token_id": 2}, {"eos_token_id": 9}),
        ({"eos_token_id": [2]}, {"eos_token_id": [2, 9]}),
        ({"eos_token_id": [2, 9]}, {"eos_token_id": [2, 9]}),
        ({"do_sample": True}, {"do_sample": True, "eos_token_id": 9}),
    ],
    ids=range(4),
)
def test_generation_config(before: dict[str, Any], after: dict[str, Any]) -> None:
    document = JsonText.parse(json.dumps(before), "generation_config.json")
    assert generation_config(document, {"eos": 9, "mask": 9}).value == after
