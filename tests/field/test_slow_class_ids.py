"""Ids that a slow tokenizer's class fixes by code: `inspect`, `check` and `extend` count as the class does.

transformers issue 31348 (2024, NLLB's language codes) and factoid-wiki issue 2 (2023, T5's sentinels).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.test_slow_ids import PADDED, PLAIN, folder, given
from tests.models.tiny import model
from tests.models.tokenizers import Folder
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import check

ROWS = 320


def checkpoint(path: Path, name: str, control: dict[str, int] = PLAIN, **settings: Any) -> Path:
    """A tiny model and the files of a slow tokenizer of class `name`."""
    root = folder(path, name, control, **settings).root
    model("llama", vocab_size=ROWS, bos_token_id=None, eos_token_id=None, pad_token_id=None).save_pretrained(root)
    return root


def transformers_ids(root: Path) -> dict[str, int]:
    """Token → id as transformers gives it."""
    return given(Folder(root))


@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("T5Tokenizer", PADDED),
        ("XLMRobertaTokenizer", PLAIN),
        ("MBartTokenizer", PLAIN),
        ("CamembertTokenizer", PLAIN),
    ],
)
def test_inspect_counts_as_the_class_and_extend_keeps_its_ids(
    name: str, control: dict[str, int], tmp_path: Path
) -> None:
    root = checkpoint(tmp_path / "a", name, control)
    before = transformers_ids(root)
    description = describe(Checkpoint.open(root))
    assert description.vocabulary.max_id == max(before.values())
    assert description.vocabulary.ids == len(before)
    assert not [finding for finding in check(description).findings if finding.severity != "note"]
    report = extend(root, tmp_path / "b", extend_request(["<sep_x>"]))
    assert isinstance(report, OperationReport), report
    after = transformers_ids(tmp_path / "b")
    assert after == {**before, "<sep_x>": max(before.values()) + 1}


def test_a_class_that_versions_count_otherwise_is_not_extended(tmp_path: Path) -> None:
    """The rows behind the pieces belong to language codes that transformers 5.24 does not know."""
    root = checkpoint(tmp_path / "a", "NllbTokenizer")
    assert describe(Checkpoint.open(root)).vocabulary.max_id == max(transformers_ids(root).values())
    refusal = extend(root, tmp_path / "b", extend_request(["tyv_Cyrl"]))
    assert isinstance(refusal, Refusal)
    assert "202 language codes" in refusal.evidence[0]


def test_m2m100_languages_have_ids_behind_its_vocabulary(tmp_path: Path) -> None:
    root = checkpoint(tmp_path / "a", "M2M100Tokenizer")
    source = Checkpoint.open(root)
    assert source.tokenizer is not None
    assert source.tokenizer.by_class[:2] == ("__af__", "__am__")
    assert isinstance(extend(root, tmp_path / "b", extend_request(["<x>"])), Refusal)
