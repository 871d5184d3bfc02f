"""What tying costs on gemma-3-270m with two tables that drifted apart, and what measuring takes: `make test-real`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.benchmarks.measure import Run, fresh
from vocabsurgeon import untie
from vocabsurgeon.checkpoint.source import Checkpoint

pytestmark = pytest.mark.real

HEAD = "lm_head.weight"
NOISE = 0.02
"""Standard deviation of what is added to the head, beside the head's own."""


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gemma-3-270m untied, its head with a little noise."""
    real = Path(os.environ["VOCABSURGEON_MODELS"]) / "gemma-3-270m"
    folder = tmp_path_factory.mktemp("drifted") / "model"
    untie(real, folder)
    info = Checkpoint.open(folder).tensors[HEAD]
    stored = np.memmap(folder / info.file, np.uint16, "r+", info.start, info.shape).view(ml_dtypes.bfloat16)
    random = np.random.default_rng(0)
    for start in range(0, info.shape[0], 16384):
        block = stored[start : start + 16384].astype(np.float32)
        noise = random.standard_normal(block.shape, np.float32)
        stored[start : start + 16384] = (block + NOISE * block.std() * noise).astype(ml_dtypes.bfloat16)
    return folder


def _tied(drifted: Path, tmp_path: Path) -> tuple[dict[str, Any], Run]:
    """The refusal's JSON, and what the process took."""
    told = tmp_path / "told.json"
    shell = '"$1" -m vocabsurgeon tie "$2" "$3" --json > "$4"; test $? = 1'
    run = fresh(["sh", "-c", shell, "sh", sys.executable, drifted, tmp_path / "out", told])
    return json.loads(told.read_text()), run


_BESIDE = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from vocabsurgeon.checkpoint.source import Checkpoint
Checkpoint.open(sys.argv[1]).tokenizer.max_id
AutoTokenizer.from_pretrained(sys.argv[1])
"""
"""What the process holds beside the model: libraries, and a tokenizer of 33 MB read as JSON and loaded."""


def test_tie_measures_every_candidate_within_twice_the_model_in_memory(
    drifted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = fresh([sys.executable, "-c", _BESIDE, drifted])
    document, run = _tied(drifted, tmp_path)
    size = (drifted / "model.safetensors").stat().st_size
    with capsys.disabled():
        peaks = f"peak {run.peak / 1e6:.0f} MB, {beside.peak / 1e6:.0f} MB without a model"
        print(f"\n{size / 1e6:.0f} MB of weights; {peaks}")
        print(f"{run.wall:.0f} s wall, {run.cpu:.0f} s CPU")
    cost = document["cost"]
    figures = {entry["candidate"]: entry for entry in cost["candidates"]}
    assert cost["probe"]["random_ids"] is False and 1500 <= cost["probe"]["tokens"] <= 3500
    assert 0 < figures["input"]["kl_mean"] < 0.1 and figures["input"]["top1_agreement"] > 0.9
    assert figures["mean"]["kl_mean"] < figures["input"]["kl_mean"]
    assert all(len(entry["continuations"]) == 3 for entry in figures.values())
    assert run.peak - beside.peak < 2 * size
