"""The main job on gemma-3-270m: `make test-real`. References: safetensors, transformers, onnxruntime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.real

TABLE = "model.embed_tokens.weight"
NEW = ("<|tool_call|>", "<|tool_result|>", "vocabsurgeon")


@pytest.fixture(scope="module")
def gemma() -> Path:
    folder = Path(os.environ["VOCABSURGEON_MODELS"]) / "gemma-3-270m"
    assert folder.is_dir(), f"{folder} is missing: fetch the models first"
    return folder


@pytest.fixture(scope="module")
def extended(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("gemma") / "extended"
    tokens = [argument for token in NEW for argument in ("--token", token)]
    return out, cli("extend", str(gemma), str(out), *tokens)


def cli(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "vocabsurgeon", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def rows(folder: Path, start: int, stop: int) -> np.ndarray[Any, Any]:
    """Rows of the table as raw 16-bit words, read by the safetensors library."""
    import torch
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return file.get_slice(TABLE)[start:stop].view(torch.int16).numpy()


def test_inspect_finds_the_tied_table_and_the_id_without_a_row(gemma: Path) -> None:
    report = cli("inspect", str(gemma))
    assert report["tie"]["state"] == "tied"
    assert report["tables"][0]["shape"] == [262144, 640]
    assert report["vocabulary"]["ids_without_row"] == [262144]


def test_extend_gives_the_next_ids_and_fills_the_missing_row(extended: tuple[Path, dict[str, Any]]) -> None:
    _, report = extended
    assert [token["id"] for token in report["tokens"]] == [262145, 262146, 262147]
    assert report["rows_filled"] == [262144]
    assert report["rows_after"] == 262148
    assert all(report["proof"].values())


def test_extend_keeps_old_rows_bit_identical(gemma: Path, extended: tuple[Path, dict[str, Any]]) -> None:
    out, _ = extended
    for start in range(0, 262144, 32768):
        assert np.array_equal(rows(gemma, start, start + 32768), rows(out, start, start + 32768))


def test_extend_writes_the_mean_of_the_pieces(gemma: Path, extended: tuple[Path, dict[str, Any]]) -> None:
    import ml_dtypes

    out, report = extended
    for token in report["tokens"]:
        pieces = np.concatenate([rows(gemma, piece, piece + 1) for piece in token["piece_ids"]])
        mean = pieces.view(ml_dtypes.bfloat16).astype(np.float64).mean(axis=0)
        got = rows(out, token["id"], token["id"] + 1)[0].view(ml_dtypes.bfloat16).astype(np.float64)
        assert np.abs(got - mean).max() <= 2**-8 * np.abs(mean).max()


def test_result_loads_in_transformers_and_generates(gemma: Path, extended: tuple[Path, dict[str, Any]]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out, _ = extended
    tokenizer, model = AutoTokenizer.from_pretrained(out), AutoModelForCausalLM.from_pretrained(out)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert model.config.vocab_size == 262148
    for number, token in enumerate(NEW, 262145):
        assert tokenizer.convert_tokens_to_ids(token) == number
        assert token in tokenizer.all_special_tokens
    prompt = tokenizer(f"The capital of France is{NEW[0]}", return_tensors="pt")
    assert 262145 in prompt["input_ids"][0].tolist()
    plain = tokenizer("The capital of France is", return_tensors="pt")
    before = AutoModelForCausalLM.from_pretrained(gemma).generate(**plain, max_new_tokens=12, do_sample=False)
    after = model.generate(**plain, max_new_tokens=12, do_sample=False)
    assert before.tolist() == after.tolist()
    assert "France" in tokenizer.decode(after[0][6:])


def test_export_stores_the_table_once_and_matches_the_logits(
    extended: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out, _ = extended
    report = cli("export", str(out), str(tmp_path / "onnx"))
    assert report["bytes"]["ratio"] <= 1.01
    assert report["bytes"]["orphaned"] == 0
    assert report["parity"]["passed"] is True
    assert report["parity"]["greedy_equal"] is True
    assert sorted(path.name for path in (tmp_path / "onnx").glob("*.onnx*")) == ["model.onnx", "model.onnx_data"]


def test_untie_and_tie_lead_back_to_the_same_weights(extended: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, _ = extended
    cli("untie", str(out), str(tmp_path / "untied"))
    cli("tie", str(tmp_path / "untied"), str(tmp_path / "tied"))
    done = subprocess.run(["cmp", out / "model.safetensors", tmp_path / "tied" / "model.safetensors"])
    assert done.returncode == 0
