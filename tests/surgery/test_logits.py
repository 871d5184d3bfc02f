"""`verify --logits`: the logits of old ids, and what counts as not checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.runner import vocabsurgeon
from tests.models.nested import NESTED, build_nested
from tests.surgery.shelf import HEAD, INPUT, logits_of, reloaded, shelved, taken, with_config, with_json, with_tensors
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.logits import LogitsParity, compare_logits, old_ids, prompts
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.tie_state import TieState


def _described(folder: Path) -> Description:
    return describe(Checkpoint.open(folder))


def _parity(before: Path, after: Path) -> LogitsParity:
    return compare_logits(_described(before), _described(after))


def test_without_the_option_nothing_is_loaded_and_it_is_not_checked() -> None:
    ran = vocabsurgeon("verify", shelved(), shelved(), "--json")
    assert ran.document["parity"] is None
    assert "parity      not checked" in vocabsurgeon("verify", shelved(), shelved()).stdout


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "bloom", "opt"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_an_extended_checkpoint_has_the_old_logits(family: str, tied: bool, tmp_path: Path) -> None:
    source = shelved(family, tied=tied)
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>").code == 0
    parity = _parity(source, tmp_path / "out")
    assert parity.passed is True and parity.top1_agreement == 1.0 and parity.ids == 64 and parity.positions > 50


@pytest.mark.parametrize("family", list(NESTED))
def test_a_multimodal_checkpoint_runs_on_its_text_ids(family: str, tmp_path: Path) -> None:
    source = build_nested(family, tmp_path / "source")
    assert vocabsurgeon("untie", source, tmp_path / "out").code == 0
    parity = _parity(source, tmp_path / "out")
    assert parity.passed is True, parity


def test_the_difference_is_that_of_the_logits(tmp_path: Path) -> None:
    def change(tensors: dict[str, object]) -> None:
        tensors[HEAD][9] += 0.01  # type: ignore[index]

    after = with_tensors(taken(tmp_path / "after", tied=False), change)
    parity = _parity(shelved(tied=False), after)
    assert parity.passed is False and parity.max_abs_diff is not None and parity.max_abs_diff > 1e-3
    gap = np.abs(logits_of(reloaded(shelved(tied=False))) - logits_of(reloaded(after)))
    assert set(gap.max(axis=(0, 1)).nonzero()[0]) == {9} and 0.1 < gap.max() / parity.max_abs_diff < 10


def test_the_tolerance_is_a_millionth_of_the_largest_logit(tmp_path: Path) -> None:
    def scaled(tensors: dict[str, object]) -> None:
        tensors[HEAD] *= 1000  # type: ignore[operator]

    big = with_tensors(taken(tmp_path / "big", tied=False), scaled)
    parity = _parity(big, big)
    largest = float(next(line for line in parity.evidence if "largest" in line).split()[-1])
    assert parity.tolerance == pytest.approx(1e-6 * largest, rel=1e-3) and largest > 100


@pytest.mark.parametrize(("before", "after", "passed"), [("headless", "untied", None), ("tied", "headless", False)])
def test_a_random_head_is_never_passed(before: str, after: str, passed: bool | None, tmp_path: Path) -> None:
    folders = [in_state(TieState(state), tmp_path / state) for state in (before, after)]
    parity = _parity(*folders)
    assert parity.passed is passed and any("random" in line for line in parity.evidence)


def test_what_does_not_load_before_is_not_checked_and_after_fails(tmp_path: Path) -> None:
    broken = with_config(taken(tmp_path / "broken"), hidden_size=32)
    assert _parity(broken, shelved()).passed is None
    assert _parity(shelved(), broken).passed is False
    ran = vocabsurgeon("verify", shelved(), broken, "--logits")
    assert ran.code == 1 and "transformers does not load it" in ran.stdout


def test_logits_alone_decide_the_exit_code(tmp_path: Path) -> None:
    """A config value that no promise is about changes what the model says."""
    after = with_config(taken(tmp_path / "after"), rms_norm_eps=0.5)
    assert vocabsurgeon("verify", shelved(), after).code == 0
    assert vocabsurgeon("verify", shelved(), after, "--logits").code == 1


def test_a_model_without_a_head_is_compared_by_its_last_hidden_state(tmp_path: Path) -> None:
    source = in_state(TieState.NO_HEAD, tmp_path / "source")
    assert vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>").code == 0
    assert _parity(source, tmp_path / "out").passed is True
    with_tensors(tmp_path / "out", lambda tensors: tensors["embed_tokens.weight"][5].neg_())
    assert _parity(source, tmp_path / "out").passed is False


def test_old_ids_are_those_that_mean_the_same(tmp_path: Path) -> None:
    import json

    after = taken(tmp_path / "after")
    document = json.loads((after / "tokenizer.json").read_text())
    vocab = document["model"]["vocab"]
    vocab["w5"], vocab["w6"] = 6, 5
    del vocab["w63"]
    with_json(after / "tokenizer.json", **document)
    with_tensors(after, lambda tensors: tensors.update({INPUT: tensors[INPUT][:62]}))
    ids = old_ids(_described(shelved()), _described(after))
    assert ids.tolist() == [number for number in range(62) if number not in (5, 6)]


def test_prompts_hold_no_id_with_a_meaning_and_are_the_same_each_time(tmp_path: Path) -> None:
    source = _described(build_nested("qwen2_vl", tmp_path / "source"))
    made = [list(prompts(source, old_ids(source, source))) for _ in range(2)]
    assert made[0] == made[1] and len(made[0]) >= 5
    assert not {0, 1, 2, 60, 61, 62, 63} & {number for prompt in made[0] for number in prompt}
