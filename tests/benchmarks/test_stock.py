"""What the same work costs with transformers alone, on a synthetic and on a real model."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.benchmarks import stock
from tests.benchmarks.measure import Command, compared, copied_and_synced, fresh, interleaved, tool
from tests.benchmarks.synthetic import INPUT, LARGE, TINY, write_checkpoint
from tests.benchmarks.test_write import TOKENS
from vocabsurgeon.checkpoint.source import Checkpoint


def _stock(checkpoint: Path, out: Path) -> Command:
    return [sys.executable, stock.__file__, checkpoint, out, *TOKENS[1::2]]


def _ours(checkpoint: Path, out: Path) -> Command:
    return tool("extend", checkpoint, out, *TOKENS, "--json")


def _measure(title: str, checkpoint: Path, work: Path, rounds: int) -> None:
    commands = {
        "cp + sync": partial(copied_and_synced, checkpoint),
        "extend": partial(_ours, checkpoint),
        "transformers": partial(_stock, checkpoint),
    }
    compared(title, interleaved(commands, checkpoint, work, rounds), "cp + sync")


def test_stock_adds_the_same_tokens(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "m", TINY, head=False)
    stock.extend(str(checkpoint), str(tmp_path / "stock"), list(TOKENS[1::2]))
    fresh(_ours(checkpoint, tmp_path / "ours"))
    first, second = (Checkpoint.open(tmp_path / name) for name in ("stock", "ours"))
    assert first.tensors.keys() == second.tensors.keys()
    assert first.tensors[INPUT].shape == second.tensors[INPUT].shape == (TINY.rows + 3, TINY.width)


@pytest.mark.bench
def test_two_and_a_half_gigabytes(tmp_path: Path) -> None:
    _measure("extend by 3 tokens, 2.4 GB", write_checkpoint(tmp_path / "m", LARGE, head=False), tmp_path, rounds=3)
    shutil.rmtree(tmp_path)


@pytest.mark.bench
def test_real_model(tmp_path: Path) -> None:
    models = os.environ.get("VOCABSURGEON_MODELS")
    if not models:
        pytest.skip("set VOCABSURGEON_MODELS to the folder with gemma-3-270m")
    _measure("extend by 3 tokens, gemma-3-270m", Path(models) / "gemma-3-270m", tmp_path, rounds=3)
