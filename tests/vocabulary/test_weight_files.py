"""Safetensors headers that name no format, and weights without numbers: told, with what older readers do and a fix."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli.runner import vocabsurgeon
from tests.models.pickled import as_pickled
from tests.surgery.shelf import INPUT, taken, with_tensors
from vocabsurgeon.checkpoint.header import read_header
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.weight_files import WITHOUT_FORMAT, WITHOUT_METADATA, unnamed_formats


def _with_metadata(folder: Path, metadata: dict[str, str] | None) -> Path:
    file = folder / "model.safetensors"
    save_file(load_file(file), file, metadata=metadata)
    return folder


@pytest.mark.parametrize(
    ("metadata", "severity", "consequence"),
    [
        (None, "note", WITHOUT_METADATA),
        ({"by": "me"}, "warning", WITHOUT_FORMAT),
        ({"format": "np"}, "warning", WITHOUT_FORMAT),
    ],
)
def test_check_tells_of_a_header_without_a_format(
    metadata: dict[str, str] | None, severity: str, consequence: str, tmp_path: Path
) -> None:
    source = _with_metadata(taken(tmp_path / "c"), metadata)
    ran = vocabsurgeon("check", source, "--json")
    [finding] = [entry for entry in ran.document["findings"] if "metadata" in entry["message"]]
    assert ran.code == 0 and finding["severity"] == severity and consequence in finding["message"]
    assert "model.safetensors" in finding["message"] and '{"format": "pt"}' in finding["fix"]


@pytest.mark.parametrize("form", ["pt", "mlx", "tf", "flax"])
def test_a_format_that_readers_know_is_no_finding(form: str, tmp_path: Path) -> None:
    assert not unnamed_formats(Checkpoint.open(_with_metadata(taken(tmp_path / "c"), {"format": form})))


def test_torch_files_have_no_header_and_get_one_that_names_the_format(tmp_path: Path) -> None:
    source = as_pickled(taken(tmp_path / "c"))
    assert not unnamed_formats(Checkpoint.open(source))
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>").code == 0
    assert read_header(tmp_path / "out" / "model.safetensors", "x").metadata == {"format": "pt"}


@pytest.mark.parametrize("command", [("extend", "--token", "<a>"), ("untie",)])
@pytest.mark.parametrize("metadata", [None, {"by": "me"}])
def test_a_written_file_keeps_its_metadata_and_the_report_says_so(
    command: tuple[str, ...], metadata: dict[str, str] | None, tmp_path: Path
) -> None:
    source = _with_metadata(taken(tmp_path / "c"), metadata)
    ran = vocabsurgeon(command[0], source, tmp_path / "out", *command[1:], "--json")
    assert any("names no format, as in the source" in note for note in ran.document["notes"])
    assert read_header(tmp_path / "out" / "model.safetensors", "x").metadata == metadata


@pytest.mark.parametrize("command", [("inspect",), ("check",), ("extend", "OUT", "--token", "<a>")])
def test_an_empty_table_points_at_zero_3(command: tuple[str, ...], tmp_path: Path) -> None:
    source = with_tensors(taken(tmp_path / "c"), lambda tensors: tensors.update({INPUT: torch.zeros(0)}))
    ran = vocabsurgeon(command[0], source, *(str(tmp_path / "out") if word == "OUT" else word for word in command[1:]))
    assert ran.code == 2 and "shape [0]" in ran.line and "ZeRO-3" in ran.line and INPUT in ran.line


def test_other_empty_weights_are_a_warning(tmp_path: Path) -> None:
    key = "model.layers.0.mlp.up_proj.weight"
    source = with_tensors(taken(tmp_path / "c"), lambda tensors: tensors.update({key: torch.zeros(0)}))
    [finding] = [
        entry for entry in vocabsurgeon("check", source, "--json").document["findings"] if key in entry["message"]
    ]
    assert finding["severity"] == "warning" and "ZeRO-3" in finding["fix"]
