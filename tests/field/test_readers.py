"""A head of its own that a reader drops (vllm#16555, vllm#30827, vllm#53170): said before it is trained, and after."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import HEAD, taken, with_tensors

DROPPED_BY = {
    "gemma": {"llama.cpp", "SGLang", "mlx-lm", "text-generation-inference"},
    "gemma2": {"llama.cpp", "vLLM", "SGLang", "mlx-lm", "text-generation-inference"},
    "gemma3_text": {"SGLang", "text-generation-inference"},
    "gpt2": {"SGLang", "mlx-lm", "text-generation-inference"},
    "bloom": {"text-generation-inference"},
}
READERS = {"llama.cpp", "vLLM", "SGLang", "mlx-lm", "text-generation-inference"}


def _named(lines: list[str]) -> set[str]:
    return {reader for reader in READERS for line in lines if reader in line}


@pytest.mark.parametrize("family", DROPPED_BY)
def test_untie_names_them_a_line_each(family: str, tmp_path: Path) -> None:
    source = taken(tmp_path / "source", family, tied=True)
    for options in (["--dry-run"], []):
        ran = vocabsurgeon("untie", source, tmp_path / "out", "--json", *options)
        notes = [note for note in ran.document["notes"] if _named([note])]
        assert ran.code == 0 and _named(notes) == DROPPED_BY[family] and len(notes) == len(DROPPED_BY[family])


@pytest.mark.parametrize("family", DROPPED_BY)
def test_inspect_and_check_name_them_of_a_trained_head(family: str, tmp_path: Path) -> None:
    source = taken(tmp_path / "source", family, tied=True)
    assert vocabsurgeon("untie", source, tmp_path / "out").code == 0
    evidence = vocabsurgeon("inspect", tmp_path / "out", "--json").document["tie"]["evidence"]
    [equal] = [entry for entry in _findings(tmp_path / "out") if _named([entry["message"]])]
    assert _named(evidence) == _named([equal["message"]]) == DROPPED_BY[family]
    with_tensors(tmp_path / "out", lambda tensors: tensors[HEAD].add_(0.01 * torch.randn(tensors[HEAD].shape)))
    assert _named(vocabsurgeon("inspect", tmp_path / "out", "--json").document["tie"]["evidence"]) == DROPPED_BY[family]
    [trained] = [entry for entry in _findings(tmp_path / "out") if _named([entry["message"]])]
    assert trained["severity"] == "warning" and _named([trained["message"]]) == DROPPED_BY[family]


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi"])
def test_nothing_is_said_of_types_whose_heads_are_read(family: str, tmp_path: Path) -> None:
    ran = vocabsurgeon("untie", taken(tmp_path / "source", family, tied=True), tmp_path / "out", "--json")
    assert ran.code == 0 and not _named(ran.document["notes"])
    assert not any(_named([entry["message"]]) for entry in _findings(tmp_path / "out"))


@pytest.mark.parametrize("family", DROPPED_BY)
def test_nothing_is_said_of_a_tied_checkpoint(family: str, tmp_path: Path) -> None:
    assert not any(_named([entry["message"]]) for entry in _findings(taken(tmp_path / "source", family, tied=True)))


def _findings(folder: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = vocabsurgeon("check", folder, "--json").document["findings"]
    return found
