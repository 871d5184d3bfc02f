"""families.json says what transformers' classes do: a fixed set of types at every run, all in `make test-sweep`."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.families.builds import classes
from tests.families.generate import FAMILIES, generated, generated_rows
from tests.models import tiny
from vocabsurgeon.vocabulary.families import family_for

TYPES = {
    # decoders
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text",
    "gemma3n_text", "gemma4_text", "gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen", "opt", "phi", "phi3",
    "bloom", "falcon", "mpt", "olmo2", "granite", "cohere", "glm4", "lfm2", "mamba", "nemotron_h",
    "deepseek_v3", "deepseek_v4", "dbrx", "xlm", "stablelm", "starcoder2", "exaone", "smollm3",
    # encoders
    "bert", "roberta", "distilbert", "albert", "mobilebert", "modernbert", "deberta-v2",
    # encoder-decoders
    "t5", "mt5", "bart", "mbart", "marian", "pegasus", "fsmt", "whisper", "t5gemma",
    # with a text model inside
    "gemma3", "gemma3n", "llava", "qwen2_vl", "qwen2_5_vl", "llama4", "mllama", "blip-2", "paligemma", "perception_lm",
}  # fmt: skip
"""A type for every way in which classes differ, and those people use most."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Some classes warn about their own defaults."""
    import transformers

    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    transformers.logging.set_verbosity(before)


def committed() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(FAMILIES.read_text())
    return table


def test_the_committed_rows_are_what_the_classes_do() -> None:
    rows = [row for row in committed()["rows"] if row["type"] in TYPES]
    assert {row["type"] for row in rows} == TYPES
    assert [_without_names(row) for row in rows] == [_without_names(row) for row in generated_rows(TYPES)]


def _without_names(row: dict[str, Any]) -> dict[str, Any]:
    """Which other names are tried depends on all types, so `also` is compared in the sweep alone."""
    return {key: value for key, value in row.items() if key != "also"}


@pytest.mark.parametrize("family_name", tiny.TINY)
def test_saved_files_hold_the_names_of_the_table(family_name: str, tmp_path: Path) -> None:
    from safetensors import safe_open

    model = tiny.model(family_name, tied=False)
    model.save_pretrained(tmp_path)
    found = family_for(model.config.model_type, type(model).__name__)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        stored = set(file.keys())
    assert found is not None
    assert {found.input_key, found.output_key, *(bias.key for bias in found.output_bias)} <= stored


def test_no_type_is_dropped_without_a_word() -> None:
    table = committed()
    named = {row["type"] for row in table["rows"]} | set(table["without_vocabulary"])
    named |= {name.partition("/")[0] for name in table["unbuilt"]}
    assert {model_type for model_type, _ in classes()} - named == set()


def test_the_file_is_one_row_a_line_and_sorted() -> None:
    lines = FAMILIES.read_text().splitlines()
    rows = [json.loads(line.removesuffix(",")) for line in lines if line.startswith('{"type"')]
    assert rows == committed()["rows"]
    assert [row["type"] for row in rows] == sorted(row["type"] for row in rows)


@pytest.mark.sweep
def test_the_committed_file_is_what_all_classes_do() -> None:
    assert json.loads(generated())["rows"] == committed()["rows"]
