"""`Checkpoint.open`: what it gives, and one helpful line for everything that is not a checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.checkpoints import CONFIG, checkpoint, random_tensor
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError, UsageError, VocabsurgeonError

A = random_tensor("F32", (8, 2))


def test_open_gives_names_headers_and_config(tmp_path: Path) -> None:
    source = Checkpoint.open(checkpoint(tmp_path, {"a": A}, notes__txt=b"1\r\n2"))
    assert source.files == ("config.json", "model.safetensors", "notes.txt")
    assert source.config.data == CONFIG and source.config.model_type == "llama"
    assert source.tensors["a"].shape == (8, 2)
    assert source.has("notes.txt") and not source.has("tokenizer.json")
    assert source.read_text("notes.txt") == "1\r\n2"
    assert source.tokenizer is None


def test_open_never_writes(tmp_path: Path) -> None:
    checkpoint(tmp_path, {"a": A})
    before = {path: os.stat(path).st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())}
    Checkpoint.open(tmp_path).rows("a").block(0, 8)
    assert {path: os.stat(path).st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())} == before


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("google/gemma-3-270m", "hf download google/gemma-3-270m"),
        ("missing", "does not exist"),
        ("missing/deeper/still", "does not exist"),
        ("a\0b", "not a path"),
        ("x" * 300, "does not exist"),
        ("x/" * 3000, "does not exist"),
    ],
)
def test_path_that_is_no_folder_gets_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, advice: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=advice):
        Checkpoint.open(given)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("model.safetensors", "lone weights file"),
        ("m.GGUF", "GGUF"),
        ("m.onnx", "audit"),
        ("pytorch_model.bin", "pickled"),
        ("m.txt", "is a file"),
    ],
)
def test_single_file_gets_advice(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=advice):
        Checkpoint.open(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("adapter_config.json", "PEFT"),
        ("m.gguf", "GGUF"),
        ("model.onnx", "ONNX export"),
        ("model.safetensors", "no config.json"),
    ],
)
def test_folder_of_another_kind_gets_advice(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=advice):
        Checkpoint.open(tmp_path)


def test_config_without_weights_gets_advice(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="holds no weights"):
        Checkpoint.open(tmp_path)


def test_file_that_vanishes_or_is_no_text_is_an_expected_error(tmp_path: Path) -> None:
    source = Checkpoint.open(checkpoint(tmp_path, {"a": A}, notes__txt=b"\xff"))
    with pytest.raises(CheckpointError, match=r"notes\.txt: is not UTF-8"):
        source.read_text("notes.txt")
    (tmp_path / "notes.txt").unlink()
    (tmp_path / "model.safetensors").unlink()
    for read in (source.read_text, source.read_bytes):
        with pytest.raises(CheckpointError, match="cannot be read"):
            read("notes.txt")
    with pytest.raises(VocabsurgeonError, match="cannot be read"):
        source.rows("a").block(0, 1)
