"""A new default chat template reaches every reader: what transformers takes from each layout, before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast
from transformers.processing_utils import ProcessorMixin

from tests.models.tokenizers import Folder, folder, word_level
from vocabsurgeon.surgery.tokens import Assignment
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.tokenizer.chat_templates import default_templates

OLD, NEW = "old {{ messages }}", "new {{ messages }}"
NAMED = {"name": "tool_use", "template": "named {{ tools }}"}
EXTRA = "additional_chat_templates/rag.jinja"
JSON = {"chat_template": OLD}

LAYOUTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a processor alone": {"processor_config.json": {}},
    "jinja": {"chat_template.jinja": OLD},
    "chat_template.json": {"chat_template.json": JSON},
    "chat_template.json and jinja": {"chat_template.json": JSON, "chat_template.jinja": OLD},
    "tokenizer_config and a processor": {"tokenizer_config.json": JSON, "preprocessor_config.json": {}},
    "processor_config": {"processor_config.json": JSON},
    "processor_config by name": {"processor_config.json": {"chat_template": {"default": OLD, "x": "y"}}},
    "everything": {
        "processor_config.json": JSON,
        "chat_template.json": JSON,
        "chat_template.jinja": OLD,
        "tokenizer_config.json": JSON,
    },
    "a list": {"tokenizer_config.json": {"chat_template": [NAMED, {"name": "default", "template": OLD}]}},
    "a list without a default": {"tokenizer_config.json": {"chat_template": [NAMED]}},
    "jinja and another": {"chat_template.jinja": OLD, EXTRA: "rag {{ documents }}"},
    "a default among the others": {
        "chat_template.jinja": OLD,
        "additional_chat_templates/default.jinja": OLD,
        EXTRA: "rag",
    },
}


def laid_out(path: Path, layout: dict[str, Any]) -> Folder:
    """A tokenizer and the files of `layout`."""
    place = folder(path, word_level(10), **({} if "tokenizer_config.json" in layout else {"tokenizer_config": {}}))
    for name, content in layout.items():
        (place.root / name).parent.mkdir(exist_ok=True)
        (place.root / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return Folder(place.root)


def default(template: Any) -> Any:
    """The default among what a reader took."""
    return template["default"] if isinstance(template, dict) else template


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_tokenizer_and_processor_take_the_new_template(layout: dict[str, Any], tmp_path: Path) -> None:
    place = laid_out(tmp_path / "a", layout)
    result = place.copied_to(tmp_path / "b", tokenizer_edits(place, Assignment(place.tokenizer), chat_template=NEW))
    assert default(PreTrainedTokenizerFast.from_pretrained(result.root).chat_template) == NEW
    if {"processor_config.json", "preprocessor_config.json", "chat_template.json"} & layout.keys():
        taken, _ = ProcessorMixin.get_processor_dict(str(result.root))
        assert default(taken["chat_template"]) == NEW
    assert set(default_templates(result).values()) == {NEW}
    assert tokenizer_edits(result, Assignment(result.tokenizer), chat_template=NEW) == ()


def test_templates_with_other_names_stay(tmp_path: Path) -> None:
    for number, name in enumerate(("a list", "a list without a default", "jinja and another")):
        place = laid_out(tmp_path / f"a{number}", LAYOUTS[name])
        edits = tokenizer_edits(place, Assignment(place.tokenizer), chat_template=NEW)
        result = place.copied_to(tmp_path / f"b{number}", edits)
        loaded = PreTrainedTokenizerFast.from_pretrained(result.root).chat_template
        before = PreTrainedTokenizerFast.from_pretrained(place.root).chat_template
        assert {**before, "default": NEW} == loaded


def test_json_edits_are_told_key_by_key(tmp_path: Path) -> None:
    place = laid_out(tmp_path, LAYOUTS["everything"])
    edits = {edit.name: edit for edit in tokenizer_edits(place, Assignment(place.tokenizer), chat_template=NEW)}
    assert set(edits) == set(LAYOUTS["everything"])
    for name in ("processor_config.json", "chat_template.json", "tokenizer_config.json"):
        assert [change.path for change in edits[name].changes or ()] == [("chat_template",)]
