"""What weights beside the model's own are: by what they hold, where the name alone could be either."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.surgery.shelf import taken
from vocabsurgeon.checkpoint.account import account, older_copies
from vocabsurgeon.checkpoint.file_kinds import FileKind, row_of
from vocabsurgeon.checkpoint.source import Checkpoint

_PROJECTOR = {"mm_projector.0.weight": torch.ones(4, 4), "mm_projector.0.bias": torch.ones(4)}


def _write(tensors: dict[str, torch.Tensor], path: Path) -> None:
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)


@pytest.mark.parametrize(
    "name",
    [
        "model-vision.safetensors",
        "model_mtp.safetensors",
        "model.vision.safetensors",
        "pytorch_model_projector.bin",
        "pytorch_model_projector.pt",
    ],
)
def test_a_further_module_with_a_name_like_the_models_is_carried(name: str, tmp_path: Path) -> None:
    folder = taken(tmp_path / "source", tied=False)
    _write(_PROJECTOR, folder / name)
    source = Checkpoint.open(folder)
    assert not older_copies(source, weights_change=True)
    assert {entry.file: entry.kind for entry in account(source)}[name] is FileKind.OTHER_WEIGHTS


@pytest.mark.parametrize(
    "name", ["model.fp16.safetensors", "model_old.safetensors", "pytorch_model.bin", "pytorch_model.fp16.bin"]
)
@pytest.mark.parametrize("quantized", [False, True])
def test_an_older_copy_is_left_out(name: str, quantized: bool, tmp_path: Path) -> None:
    folder = taken(tmp_path / "source", tied=False)
    held = load_file(folder / "model.safetensors")
    _write({key.replace("proj.weight", "proj.qweight") if quantized else key: held[key] for key in held}, folder / name)
    assert [edit.name for edit in older_copies(Checkpoint.open(folder), weights_change=True)] == [name]


def test_what_cannot_be_read_counts_by_the_name_that_readers_ask_for(tmp_path: Path) -> None:
    folder = taken(tmp_path / "source", tied=False)
    for name in ("model.fp16.safetensors", "model_extra.safetensors", "pytorch_model.bin", "pytorch_model_extra.bin"):
        (folder / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    left = [edit.name for edit in older_copies(Checkpoint.open(folder), weights_change=True)]
    assert left == ["model.fp16.safetensors", "pytorch_model.bin"]


@pytest.mark.parametrize("kind", FileKind)
def test_every_kind_is_in_the_file_table_of_the_docs(kind: FileKind) -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    assert any(str(kind) in row for row in rows)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("checkpoint-500/model.safetensors", FileKind.TRAINING),
        ("2_Dense/model.safetensors", FileKind.OTHER_WEIGHTS),
        ("vision-lora/adapter_model.safetensors", FileKind.ADAPTER),
        ("original/tokenizer.model", FileKind.TOKENIZER),
        ("tekken.json", FileKind.TOKENIZER),
        ("params.json", FileKind.CONFIG),
        ("onnx/model_q4.onnx", FileKind.EXPORT),
        ("sub/model.gguf", FileKind.EXPORT),
        ("1_Pooling/config.json", FileKind.CONFIG),
        ("additional_chat_templates/rag.jinja", FileKind.TOKENIZER),
        ("modeling_x.py", FileKind.CODE),
        ("README.md", FileKind.DOCUMENTATION),
        ("vocab-src.json", FileKind.TOKENIZER),
        ("preprocessor_config.json", FileKind.PROCESSOR),
        ("weird.dat", FileKind.UNKNOWN),
    ],
)
def test_a_file_is_what_its_name_says(name: str, kind: FileKind) -> None:
    assert row_of(name).kind is kind
