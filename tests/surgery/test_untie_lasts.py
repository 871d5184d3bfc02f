"""An untied checkpoint stays untied under what a user does next: load, save again, train, leave the flag alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.cli.runner import vocabsurgeon
from tests.models.nested import NESTED, build_nested
from tests.surgery.shelf import config_of, shelved, tensors_of
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe

FLAT = ("llama", "qwen2", "gemma3_text", "gpt2", "gpt_neox", "falcon", "opt", "bloom")
PROMPT = [[3, 1, 4, 1, 5, 9, 2, 6]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("untied")


def _source(family: str, folder: Path) -> Path:
    if family not in NESTED:
        return shelved(family)
    return (
        folder / f"{family}-source"
        if (folder / f"{family}-source").exists()
        else build_nested(family, folder / f"{family}-source")
    )


@pytest.fixture
def untied(family: str, results: Path) -> Path:
    """The untied checkpoint, made once for all tests of a family."""
    out = results / family
    if not out.exists():
        assert vocabsurgeon("untie", _source(family, results), out).code == 0
    return out


def _loaded(family: str, folder: Path) -> Any:
    auto = transformers.AutoModelForImageTextToText if family in NESTED else transformers.AutoModelForCausalLM
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model.eval()


def _tables(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return model.get_input_embeddings().weight, model.get_output_embeddings().weight


def _apart(model: Any) -> bool:
    first, second = _tables(model)
    return first is not second and first.data_ptr() != second.data_ptr()


def _logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.tensor(PROMPT)).logits
    return found


@pytest.mark.parametrize("family", [*FLAT, *NESTED])
class TestUntied:
    def test_reload_keeps_two_equal_tables_and_the_logits(self, family: str, untied: Path, results: Path) -> None:
        model = _loaded(family, untied)
        assert _apart(model) and torch.equal(*_tables(model))
        assert torch.equal(_logits(model), _logits(_loaded(family, _source(family, results))))

    def test_saving_again_and_reloading_keeps_two_tables(self, family: str, untied: Path, tmp_path: Path) -> None:
        model = _loaded(family, untied)
        model.save_pretrained(tmp_path / "again")
        again = _loaded(family, tmp_path / "again")
        assert _apart(again) and torch.equal(_logits(again), _logits(model))
        assert describe(Checkpoint.open(tmp_path / "again")).tie.state == "untied-equal"

    def test_a_training_step_gives_the_tables_different_gradients(
        self, family: str, untied: Path, tmp_path: Path
    ) -> None:
        model = _loaded(family, untied).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model(torch.tensor(PROMPT), labels=torch.tensor(PROMPT)).loss.backward()
        first, second = _tables(model)
        assert first.grad is not None and second.grad is not None and not torch.equal(first.grad, second.grad)
        optimizer.step()
        assert not torch.equal(first, second)
        model.save_pretrained(tmp_path / "trained")
        trained = _loaded(family, tmp_path / "trained")
        assert all(torch.equal(a, b) for a, b in zip(_tables(trained), (first, second), strict=True))
        assert describe(Checkpoint.open(tmp_path / "trained")).tie.state == "untied"

    def test_no_level_of_the_config_still_says_tied(self, family: str, untied: Path) -> None:
        assert True not in _flags(config_of(untied)) and False in _flags(config_of(untied))
        assert describe(Checkpoint.open(untied)).tie.state == "untied-equal"
        assert len(tensors_of(untied)) == len(tensors_of(_source(family, untied.parent))) + 1


def _flags(level: dict[str, Any]) -> list[bool]:
    """Every `tie_word_embeddings` of a config and what it nests, but that of a part without a vocabulary."""
    own = [level["tie_word_embeddings"]] if "tie_word_embeddings" in level else []
    inner = [value for key, value in level.items() if isinstance(value, dict) and key != "vision_config"]
    return own + [flag for value in inner for flag in _flags(value)]
