"""`check`: what is wrong is found with its severity and a fix; a sound checkpoint passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.tiny import write_tokenizer
from tests.models.tokenizers import folder, word_level
from tests.surgery.shelf import shelved, taken, with_config
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import CheckReport, check
from vocabsurgeon.vocabulary.tie_state import TieState

SEVERITY = {
    TieState.TIED: None,
    TieState.UNTIED: None,
    TieState.NO_HEAD: None,
    TieState.TIED_DUPLICATE: "warning",
    TieState.UNTIED_EQUAL: "warning",
    TieState.CONFLICT: "error",
    TieState.HEADLESS: "error",
    TieState.INPUT_MISSING: "error",
    TieState.ROW_MISMATCH: "error",
}


def _report(source: Path) -> CheckReport:
    return check(describe(Checkpoint.open(source)))


@pytest.mark.parametrize("state", TieState)
def test_each_state_has_its_severity(state: TieState, tmp_path: Path) -> None:
    report = _report(in_state(state, tmp_path / "source"))
    assert [finding.severity for finding in report.findings] == ([SEVERITY[state]] if SEVERITY[state] else [])
    assert report.passed is (SEVERITY[state] != "error")
    assert all(finding.fix and finding.message for finding in report.findings)


def test_a_size_that_the_table_does_not_have(tmp_path: Path) -> None:
    report = _report(with_config(taken(tmp_path / "source"), vocab_size=63))
    assert not report.passed and "vocab_size is 63" in report.findings[0].message


def test_spare_rows_are_a_note(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    write_tokenizer(source, 60)
    report = _report(source)
    assert report.passed and "4 spare rows" in report.findings[0].message and report.findings[0].severity == "note"


def test_holes_are_a_warning(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    folder(source, word_level(ids=(0, 1, 2, 4, 63)))
    report = _report(source)
    assert report.passed and any(
        "59 ids below the highest are unused" in finding.message for finding in report.findings
    )


def test_no_tokenizer_is_a_note(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    (source / "tokenizer.json").unlink()
    (source / "tokenizer_config.json").unlink()
    assert [finding.severity for finding in _report(source).findings] == ["note"]


def test_errors_come_first(tmp_path: Path) -> None:
    source = with_config(in_state(TieState.UNTIED_EQUAL, tmp_path / "source"), vocab_size=63)
    write_tokenizer(source, 60)
    assert [finding.severity for finding in _report(source).findings] == ["error", "warning", "note"]


def test_a_sound_checkpoint_has_none() -> None:
    assert _report(shelved()).findings == ()
