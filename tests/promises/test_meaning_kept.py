"""`MeaningKept`: without a record, what decides ids and roles is as it was; what else differs is named, not passed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.promises.pairs import Pair, edit_json
from vocabsurgeon.surgery.promises import MeaningKept


def _pair(tmp_path: Path) -> Pair:
    pair = Pair("extend", MeaningKept, tmp_path)
    pair.promises = [MeaningKept()]
    return pair


def test_holds_where_only_tokens_were_added(tmp_path: Path) -> None:
    verdicts = _pair(tmp_path).verdicts()
    assert all(verdict.passed is not False for verdict in verdicts)


BREAKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "another pre-tokenizer": (edit_json("tokenizer.json", lambda d: d.update(pre_tokenizer=None)), "pre_tokenizer"),
    "padding switched on": (edit_json("tokenizer.json", lambda d: d.update(padding={"pad_id": 1})), "padding"),
    "another role": (edit_json("tokenizer_config.json", lambda d: d.update(unk_token="<x>")), "unk_token"),
    "the settings gone": (lambda out: (out / "tokenizer_config.json").unlink(), "is gone"),
    "another model": (edit_json("tokenizer.json", lambda d: d["model"].update(unk_token="<x>")), "model.unk_token"),
}


@pytest.mark.parametrize(("change", "told"), BREAKS.values(), ids=list(BREAKS))
def test_fails_where_a_meaning_changed(change: Callable[[Path], None], told: str, tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    change(pair.out)
    assert told in pair.broken()


def test_what_else_changed_is_named_and_not_passed(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    edit_json("tokenizer_config.json", lambda d: d.update(model_max_length=7))(pair.out)
    (verdict,) = pair.verdicts()
    assert verdict.passed is None and "model_max_length" in "; ".join(verdict.evidence)


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("config.json", lambda d: d.update(rms_norm_eps=0.5), "rms_norm_eps"),
        ("config.json", lambda d: d.update(more=1), "more"),
        ("generation_config.json", lambda d: d.update(do_sample=True), "do_sample"),
    ],
)
def test_a_setting_that_nobody_speaks_for_is_named(name: str, change: Any, told: str, tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    edit_json(name, change)(pair.out)
    (verdict,) = pair.verdicts()
    assert verdict.passed is None and told in "; ".join(verdict.evidence)


def test_fails_where_config_names_another_end_of_text(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    edit_json("config.json", lambda d: d.update(eos_token_id=9))(pair.out)
    assert "eos_token_id" in pair.broken()


def test_another_files_bytes_are_named(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    for folder, text in ((pair.source, "a"), (pair.out, "b")):
        (folder / "README.md").write_text(text)
    (pair.out / "chat_template.jinja").write_text("x")
    (verdict,) = pair.verdicts()
    assert verdict.passed is None and {"README.md changed", "chat_template.jinja appeared"} <= set(verdict.evidence)
