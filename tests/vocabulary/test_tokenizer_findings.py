"""What `check` says of a tokenizer's files: ids that a class fixes, ids not known, templates that differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.test_slow_ids import PADDED, PLAIN, folder, model
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.tokenizer_findings import tokenizer_findings

DEMO = Path(__file__).parents[2] / "vocabsurgeon" / "demo_model"


def told(root: Path) -> list[tuple[str, str]]:
    """Severity and message of each finding about the tokenizer in `root`, with the demo model's weights."""
    for name in ("config.json", "model.safetensors"):
        if not (root / name).exists():
            shutil.copy(DEMO / name, root)
    return [(severity, message) for severity, message, _ in tokenizer_findings(Checkpoint.open(root))]


def test_the_demo_model_is_calm(tmp_path: Path) -> None:
    assert list(tokenizer_findings(Checkpoint.open(DEMO))) == []


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("XLMRobertaTokenizer", {}, "2 ids are fixed by the class XLMRobertaTokenizer, not by a file: '<pad>' 1, "),
        ("T5Tokenizer", {"extra_ids": 1}, "an id is fixed by the class T5Tokenizer, not by a file: '<extra_id_0>' "),
    ],
)
def test_ids_that_a_class_fixes_are_said(name: str, settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    place = folder(tmp_path / "a", name, PADDED if name == "T5Tokenizer" else PLAIN, **settings)
    [(severity, text)] = told(place.root)
    assert severity == "note" and text.startswith(message)


def test_ids_that_versions_count_otherwise_are_a_warning(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", "NllbTokenizer")
    assert ("warning", "NllbTokenizer of transformers 4 puts 202 language codes between the pieces and <mask>; 5.24 "
            "does not") in told(place.root)  # fmt: skip


def test_ids_that_are_not_known_are_said_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(model(*PLAIN.items()))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "OwnTokenizer"}')
    assert told(tmp_path) == [
        ("note", "ids were not checked: OwnTokenizer decides by code what ids the pieces of tokenizer.model get")
    ]


@pytest.mark.parametrize(("other", "count"), [("old", 0), ("old\n", 0), ("new", 1)])
def test_default_templates_that_differ_are_a_warning(other: str, count: int, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / name, tmp_path)
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "old"}))
    (tmp_path / "chat_template.jinja").write_text(other)
    found = told(tmp_path)
    assert [severity for severity, _ in found] == ["warning"] * count
    assert not count or found[0][1].startswith("chat_template.jinja, chat_template.json hold different")
