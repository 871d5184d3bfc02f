"""What `--overwrite` may replace: checkpoints, exports and their kin; never what somebody keeps or lives in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from vocabsurgeon.checkpoint import replaceable
from vocabsurgeon.checkpoint.replaceable import why_not_replaceable
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.errors import OutputError


def _folder(path: Path, names: Iterable[str]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x")
    return path


REPLACED = {
    "empty": (),
    "a checkpoint": ("config.json", "model.safetensors", "README.md", ".gitattributes"),
    "shards": ("config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"),
    "torch weights": ("config.json", "pytorch_model.bin", "vocab.txt", "modeling_own.py"),
    "an adapter": ("adapter_config.json", "adapter_model.safetensors"),
    "a tokenizer": ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    "an export": ("model.onnx", "model.onnx_data", "config.json", "genai_config.json"),
    "an export below onnx/": ("config.json", "onnx/model.onnx", "onnx/model_fp16.onnx_data"),
    "an export with a file a tensor": ("model.onnx", "onnx__MatMul_17", "encoder.layer.0.weight", "a.bias"),
    "sentence-transformers": ("modules.json", "0_Transformer/model.safetensors", "1_Pooling/config.json"),
    "a trainer's folder": ("config.json", "model.safetensors", "checkpoint-10/optimizer.pt", "trainer_state.json"),
    "fetched from the hub": ("config.json", "model.safetensors", ".cache/huggingface/download/model.lock"),
}
KEPT = {
    "documents": ("thesis.docx", "letters/1.txt"),
    "a photo": ("a.png",),
    "a project of ours": ("train.py", "README.md"),
    "a config without weights": ("config.json",),
    "weights without a config": ("model.safetensors",),
    "checkpoints, a folder each": ("a/config.json", "a/model.safetensors", "b/tokenizer.json"),
    "a checkpoint beside documents": ("config.json", "model.safetensors", "thesis.docx"),
    "documents below a checkpoint": ("config.json", "model.safetensors", "letters/1.docx"),
    "notes below a checkpoint": ("config.json", "model.safetensors", "notes.md"),
    "a program with its weights": ("config.json", "model.safetensors", "src/main.py"),
    "a paper with its tokenizer": ("tokenizer.json", "README.md", "paper.pdf"),
    "notebooks beside an export": ("model.onnx", "try.ipynb"),
    "a clone": ("config.json", "model.safetensors", ".git/HEAD"),
    "a worktree": ("config.json", "model.safetensors", ".git"),
    "a clone below": ("config.json", "model.safetensors", "sub/.git/HEAD"),
    "a record of something else": ("vocabsurgeon.json", "notes.txt"),
}


@pytest.mark.parametrize("names", REPLACED.values(), ids=list(REPLACED))
def test_what_a_checkpoint_writer_wrote_is_replaced(names: tuple[str, ...], tmp_path: Path) -> None:
    out = _folder(tmp_path / "out", names)
    assert why_not_replaceable(out) is None
    with StagedDirectory(out, overwrite=True) as staged:
        staged.commit()
    assert os.listdir(out) == [] and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("names", KEPT.values(), ids=list(KEPT))
def test_anything_else_is_refused_before_anything_is_staged(names: tuple[str, ...], tmp_path: Path) -> None:
    out = _folder(tmp_path / "out", names)
    with pytest.raises(OutputError, match="is not replaced: it holds") as caught:
        StagedDirectory(out, overwrite=True)
    assert caught.value.exit_code == 2 and str(caught.value).isprintable()
    assert os.listdir(tmp_path) == ["out"] and all((out / name).exists() for name in names)


def test_a_link_in_the_folder_is_a_file_like_others(tmp_path: Path) -> None:
    out = _folder(tmp_path / "out", REPLACED["a checkpoint"])
    (out / "elsewhere").symlink_to(_folder(tmp_path / "documents", ("thesis.docx",)))
    assert "elsewhere" in str(why_not_replaceable(out))


def test_what_a_record_names_is_replaced_and_nothing_that_came_later(tmp_path: Path) -> None:
    out = _folder(tmp_path / "out", ("config.json", "carried.xyz"))
    record = {"schema": "vocabsurgeon.extend/1", "contents": {"config.json": {}, "carried.xyz": {}}}
    (out / "vocabsurgeon.json").write_text(json.dumps(record))
    assert why_not_replaceable(out) is None
    for mine in ("mine.xyz", "mine.pdf", "mine.py"):
        (out / mine).write_text("x")
        assert str(why_not_replaceable(out)) == f"holds {mine}, which no checkpoint writer wrote"
        (out / mine).unlink()


@pytest.mark.parametrize("below", ["", "deep", "deep/er"])
def test_the_current_directory_and_what_is_around_it(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = _folder(tmp_path / "out", REPLACED["a checkpoint"])
    (out / below).mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to(out)
    monkeypatch.chdir(tmp_path / "link" / below)
    assert "the current directory" in str(why_not_replaceable(out))
    assert "the current directory" in str(
        why_not_replaceable(Path("/".join([".", *[".." for _ in Path(below).parts]])))
    )


def test_a_folder_that_is_gone_is_no_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = _folder(tmp_path / "out", REPLACED["a checkpoint"])
    gone = _folder(tmp_path / "gone", ())
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert why_not_replaceable(out) is None


@pytest.mark.parametrize("home", ["", "user", "users/user"])
def test_a_home_folder_and_what_is_around_it(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = _folder(tmp_path / "out", REPLACED["a checkpoint"])
    monkeypatch.setenv("HOME", str(out / home))
    assert "a home folder" in str(why_not_replaceable(out))


@pytest.mark.parametrize("mount", ["", "data", "with space/data"])
def test_a_mount_point_and_what_is_around_it(mount: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = _folder(tmp_path / "my out", REPLACED["a checkpoint"])
    place = str(out / mount).replace(" ", r"\040")
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:21 / /proc rw - proc proc rw\n36 35 98:0 / {place} rw,noatime - ext3 /dev/x rw\n")
    monkeypatch.setattr(replaceable, "_MOUNTS", table)
    assert "a mount point" in str(why_not_replaceable(out))
    (tmp_path / "link").symlink_to(tmp_path)
    assert "a mount point" in str(why_not_replaceable(tmp_path / "link" / "my out"))


def test_where_there_is_no_table_of_mounts_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaceable, "_MOUNTS", Path("/nowhere"))
    assert why_not_replaceable(Path("/proc")) == "is a mount point"
