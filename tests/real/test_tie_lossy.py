"""Tying gemma-3-270m again after its norm's gain was folded into the head: `make test-real`."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.run import tie

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("untied_pair", ROOT / "examples" / "untied_pair.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_folded_gain_is_found_again(tmp_path: Path) -> None:
    example = _example()
    pair = example.Pair(Path(os.environ["VOCABSURGEON_MODELS"]) / "gemma-3-270m", tmp_path / "folded")
    example.folded(pair)
    pair.save()
    report = tie(tmp_path / "folded", tmp_path / "out", request=TieRequest("input", refit_norm=True, max_kl=0.01))
    assert not isinstance(report, Refusal), report
    assert report.proof.passed and report.plan.details["kept"] == "input+refit"
    plain, fitted = (entry["kl_mean"] for entry in report.plan.details["cost"]["candidates"])
    assert fitted < 0.01 and plain > 10 * fitted
