"""What is said of readers is true of the transformers at hand; what could not be asked here is data with a version."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import config_of, taken, tensors_of, with_config
from tests.surgery.states import in_state
from vocabsurgeon.vocabulary.readers import LLAMA_CPP_READINGS, READINGS, readings_of
from vocabsurgeon.vocabulary.tie_state import TieState

FAMILIES = ("llama", "qwen2", "gemma3_text", "gpt2", "mistral")
NOW = "transformers 5.24"


def _in_state(state: str, target: Path, family: str) -> Path:
    conflict = state == "conflict"
    return with_config(taken(target, family, tied=not conflict), tie_word_embeddings=conflict)


def _loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    loaded: tuple[Any, dict[str, Any]] = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True
    )
    return loaded


def test_the_version_at_hand_is_the_one_that_the_facts_name() -> None:
    assert transformers.__version__.startswith(NOW.removeprefix("transformers "))
    assert all(any(reading.reader == NOW for reading in readings) for readings in READINGS.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_conflict_keeps_both_tables_and_warns(
    family: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _in_state("conflict", tmp_path / "source", family)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    with caplog.at_level(logging.WARNING, "transformers"):
        model, info = _loaded(source)
    assert "will NOT tie" in caplog.text
    head = model.get_output_embeddings().weight
    key = next(key for key in ("lm_head.weight", "embed_out.weight") if key in tensors_of(source))
    assert head is not model.get_input_embeddings().weight and torch.equal(head, tensors_of(source)[key])
    assert not info["missing_keys"]
    model.save_pretrained(tmp_path / "again")
    assert key in tensors_of(tmp_path / "again") and config_of(tmp_path / "again")["tie_word_embeddings"] is True
    model.resize_token_embeddings(66)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("family", FAMILIES)
def test_a_headless_file_gets_another_random_head_at_each_load(family: str, tmp_path: Path) -> None:
    source = _in_state("headless", tmp_path / "source", family)
    (first, info), (second, _) = _loaded(source), _loaded(source)
    heads = [model.get_output_embeddings().weight for model in (first, second)]
    assert "lm_head.weight" in info["missing_keys"] and not torch.equal(*heads)


@pytest.mark.parametrize("state", list(READINGS))
def test_inspect_and_check_tell_what_readers_do(state: str, tmp_path: Path) -> None:
    source = in_state(TieState(state), tmp_path / "source")
    told = vocabsurgeon("inspect", source, "--json").document["tie"]["evidence"]
    finding = vocabsurgeon("check", source, "--json").document["findings"][0]["message"]
    for reading in readings_of(state, "llama"):
        assert str(reading) in told and str(reading) in finding
    assert len(readings_of(state, "llama")) == 3


@pytest.mark.parametrize(
    ("state", "operation"), [("conflict", ("tie", "--no-probe")), ("headless", ("extend", "--token", "<a>"))]
)
def test_refusals_tell_what_readers_do(state: str, operation: tuple[str, ...], tmp_path: Path) -> None:
    source = in_state(TieState(state), tmp_path / "source")
    ran = vocabsurgeon(operation[0], source, tmp_path / "out", *operation[1:])
    assert ran.code in (1, 2) and all(str(reading) in ran.stderr for reading in readings_of(state, "llama"))


def test_states_on_which_readers_agree_need_no_words() -> None:
    assert all(readings_of(state, "llama") == () for state in TieState if state not in READINGS)


def test_a_type_that_nobody_looked_at_is_said_to_be_one() -> None:
    assert "not looked at" in str(readings_of("conflict", "bert")[-1])
    assert "not looked at" in str(readings_of("conflict", None)[-1])


def test_every_state_is_told_for_every_type_of_llama_cpp() -> None:
    assert all(readings.keys() == READINGS.keys() for readings in LLAMA_CPP_READINGS.values())


@pytest.mark.parametrize("family", list(LLAMA_CPP_READINGS))
def test_types_whose_head_is_skipped_have_no_place_for_one_in_gguf(family: str) -> None:
    gguf = pytest.importorskip("gguf")
    name = {"gemma3_text": "GEMMA3", "mistral": "LLAMA", "mixtral": "LLAMA", "mt5": "T5", "umt5": "T5"}.get(
        family, family.upper()
    )
    has_place = gguf.MODEL_TENSOR.OUTPUT in gguf.MODEL_TENSORS[gguf.MODEL_ARCH[name]]
    assert has_place is ("leaves lm_head.weight out" not in LLAMA_CPP_READINGS[family]["conflict"].does)
