"""config.json as levels: which objects are levels, what they state, and edits that keep every other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vocabsurgeon.checkpoint.config import Config, dotted, level_name
from vocabsurgeon.errors import ConfigError


def _config(**root: Any) -> Config:
    return Config.parse(json.dumps(root))


def test_levels_are_the_root_and_every_model_inside_outermost_first() -> None:
    config = _config(
        a_config={"b_config": {}},
        text_config={},
        encoder={"vocab_size": 2},
        quantization_config={"x_config": {}},
        rope_scaling={},
        vision_config=None,
        list_config=[{"c_config": {}}],
    )
    names = [(), ("a_config",), ("a_config", "b_config"), ("text_config",), ("encoder",)]
    assert list(config.levels) == names


def test_flags_and_numbers_tell_the_levels_that_state_them() -> None:
    text = {"tie_word_embeddings": False, "vocab_size": 9}
    config = _config(tie_word_embeddings=True, vocab_size=None, text_config=text, vision_config={})
    assert config.flags() == {(): True, ("text_config",): False}
    assert config.numbers("vocab_size") == {("text_config",): 9}
    assert _config().flags() == {}


@pytest.mark.parametrize("value", ["true", 1, 0, [], {}])
def test_flag_that_is_no_bool_is_an_error(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"text_config\.tie_word_embeddings"):
        _config(text_config={"tie_word_embeddings": value}).flags()


@pytest.mark.parametrize("value", ["9", 9.0, True, -1, [9]])
def test_number_that_is_no_whole_number_is_an_error(value: Any) -> None:
    with pytest.raises(ConfigError, match="vocab_size"):
        _config(vocab_size=value).numbers("vocab_size")


@pytest.mark.parametrize(
    ("root", "name"), [({}, None), ({"architectures": []}, None), ({"architectures": ["A", "B"]}, "A")]
)
def test_architecture_is_the_first_named(root: dict[str, Any], name: str | None) -> None:
    assert _config(**root).architecture == name


@pytest.mark.parametrize("value", ["A", {"A": 1}, [1]])
def test_architectures_of_another_kind_are_an_error(value: Any) -> None:
    with pytest.raises(ConfigError, match="architectures"):
        _ = _config(architectures=value).architecture


def test_model_type_of_another_kind_is_an_error() -> None:
    with pytest.raises(ConfigError, match="model_type"):
        _ = _config(model_type=3).model_type


def test_with_values_changes_the_values_and_no_other_byte() -> None:
    text = '{\r\n\t"vocab_size" : 8,\r\n\t"rms": 1e-06, "text_config": {"vocab_size": 8}\r\n}'
    config = Config.parse(text).with_values({("vocab_size",): 12, ("text_config", "vocab_size"): 12})
    assert config.document.text == text.replace(": 8", ": 12")


def test_levels_have_names_in_messages() -> None:
    assert (level_name(()), level_name(("text_config",)), dotted(("a", "b"))) == ("root", "text_config", "a.b")
