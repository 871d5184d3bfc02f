"""All shards there and the index not (unsloth#2355, unsloth-zoo#950): read whole, said, and written with an index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import contents, shelved, taken, tensors_of
from vocabsurgeon.checkpoint.shards import INDEX


def _split(folder: Path, pattern: str, count: int = 3, ending: str = "safetensors") -> Path:
    """The one weight file of `folder` as numbered ones, without an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for number in range(count):
        part = {key: tensors[key] for key in list(tensors)[number::count]}
        file = folder / pattern.format(number=number + 1, count=count)
        if ending == "bin":
            torch.save(part, file)
        else:
            save_file(part, file, metadata={"format": "pt"})
    return folder


USUAL = "model-{number:05}-of-{count:05}.safetensors"
FILES = {
    "usual": (USUAL, "safetensors"),
    "another stem": ("llama-tiny-{number:05}-of-{count:05}.safetensors", "safetensors"),
    "torch": ("pytorch_model-{number:05}-of-{count:05}.bin", "bin"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_set_is_read_whole_and_the_missing_index_told(name: str, tmp_path: Path) -> None:
    source = _split(taken(tmp_path / "source", tied=False), FILES[name][0], ending=FILES[name][1])
    plain = vocabsurgeon("inspect", shelved(tied=False), "--json").document
    seen = vocabsurgeon("inspect", source, "--json").document
    assert (seen["tie"]["state"], seen["bytes"]) == (plain["tie"]["state"], plain["bytes"])
    ran = vocabsurgeon("check", source, "--json")
    told = [found for found in ran.document["findings"] if "no index names these files" in found["message"]]
    assert ran.code == 0 and [found["severity"] for found in told] == ["warning"]
    index = "pytorch_model.bin.index.json" if FILES[name][1] == "bin" else INDEX
    assert f"fetch {index}," in told[0]["fix"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "command", [("extend", "--token", "<|x|>"), ("tie", "--allow-lossy", "--keep", "input")], ids=["extend", "tie"]
)
def test_a_changed_result_has_an_index_and_loads_whole(name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    source = _split(taken(tmp_path / "source", tied=False), FILES[name][0], ending=FILES[name][1])
    out = tmp_path / "out"
    ran = vocabsurgeon(command[0], source, out, *command[1:])
    assert ran.code == 0, ran.line
    named = set(json.loads((out / INDEX).read_text())["weight_map"].values())
    assert named == {file.name for file in out.glob("*.safetensors")}
    _, info = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]


def test_a_result_without_changes_has_the_same_files(tmp_path: Path) -> None:
    source = _split(taken(tmp_path / "source", tied=True), USUAL)
    assert vocabsurgeon("extend", source, tmp_path / "out").code == 0
    assert contents(tmp_path / "out") == contents(source)


def test_a_file_that_is_called_model_beside_the_others_is_refused_and_named(tmp_path: Path) -> None:
    source = _split(taken(tmp_path / "source"), USUAL)
    (source / USUAL.format(number=2, count=3)).rename(source / "model.safetensors")
    for command in (("check", source), ("extend", source, tmp_path / "out", "--token", "<|x|>")):
        ran = vocabsurgeon(*command)
        assert ran.code == 2 and "call it model-00002-of-00003.safetensors again" in ran.line


def test_an_incomplete_set_is_refused_and_not_to_be_renamed(tmp_path: Path) -> None:
    source = _split(taken(tmp_path / "source"), USUAL)
    (source / USUAL.format(number=1, count=3)).unlink()
    ran = vocabsurgeon("check", source)
    assert ran.code == 2 and "2 of 3; number 1 is not there" in ran.line and "fetch the missing files" in ran.line


def test_torch_and_safetensors_side_by_side_are_told(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    torch.save(tensors_of(source), source / "pytorch_model.bin")
    found = vocabsurgeon("check", source, "--json").document["findings"]
    told = [entry for entry in found if "pytorch_model.bin lies beside model.safetensors" in entry["message"]]
    assert [entry["severity"] for entry in told] == ["note"] and "transformers" in told[0]["message"]


def test_shards_that_the_index_does_not_name_are_told(tmp_path: Path) -> None:
    source = _split(taken(tmp_path / "source"), USUAL)
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<|x|>").code == 0
    save_file({"a": torch.zeros(2)}, tmp_path / "out" / USUAL.format(number=4, count=4), metadata={"format": "pt"})
    found = vocabsurgeon("check", tmp_path / "out", "--json").document["findings"]
    assert any("model-00004-of-00004.safetensors: left over" in entry["message"] for entry in found)
