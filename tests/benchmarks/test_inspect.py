"""`inspect`: wall time and memory of a fresh process, whatever the size of the weights. Budget: 0.6 s, 120 MB."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.benchmarks.measure import compared, interleaved, tool
from tests.benchmarks.synthetic import LARGE, TINY, write_checkpoint, write_headers_only


def _measure(title: str, checkpoint: Path, work: Path, rounds: int) -> None:
    commands = {
        "python, numpy": lambda out: [sys.executable, "-c", "import numpy"],
        "inspect": lambda out: tool("inspect", checkpoint),
        "inspect --json": lambda out: tool("inspect", checkpoint, "--json"),
    }
    compared(title, interleaved(commands, checkpoint / "config.json", work, rounds), "python, numpy")


def test_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _measure("small", write_headers_only(tmp_path / "m", shards=3, tensors_each=2), tmp_path, rounds=1)
    assert "| inspect --json" in capsys.readouterr().out


@pytest.mark.bench
def test_two_hundred_shards(tmp_path: Path) -> None:
    checkpoint = write_headers_only(tmp_path / "m", shards=200, tensors_each=40)
    size = sum(path.stat().st_size for path in checkpoint.iterdir())
    _measure(f"inspect, 200 shards, 8001 tensors, {size / 1e9:.0f} GB", checkpoint, tmp_path, rounds=5)


@pytest.mark.bench
def test_tied_shards_of_two_and_a_half_gigabytes(tmp_path: Path) -> None:
    _measure("inspect, 2.4 GB", write_checkpoint(tmp_path / "m", LARGE, head=False), tmp_path, rounds=5)


@pytest.mark.bench
def test_tables_that_must_be_compared(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "m", LARGE, head=True)
    _measure("inspect, 2.5 GB, two equal tables of 131 MB compared to the end", checkpoint, tmp_path, rounds=5)


@pytest.mark.bench
def test_real_model_with_and_without_its_tokenizer_of_33_megabytes(tmp_path: Path) -> None:
    real = os.environ.get("VOCABSURGEON_MODELS")
    if not real:
        pytest.skip("set VOCABSURGEON_MODELS to the folder with gemma-3-270m")
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((Path(real) / "gemma-3-270m" / name).read_bytes())
    _measure("inspect, gemma-3-270m without its tokenizer", bare, tmp_path, rounds=5)
    _measure("inspect, gemma-3-270m", Path(real) / "gemma-3-270m", tmp_path, rounds=5)


def test_tiny_is_a_checkpoint_that_loads(tmp_path: Path) -> None:
    """What is measured is what transformers would load: names, shapes and tying are Llama's."""
    import torch
    import transformers

    folder = write_checkpoint(tmp_path / "m", TINY, head=True)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)
    assert len(list(folder.glob("*.safetensors"))) > 1
