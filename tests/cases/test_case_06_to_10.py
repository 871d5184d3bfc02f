"""CASES.md 6 to 10: the flag against the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cases.sources import extended, llama
from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import (
    FAMILIES,
    HEAD,
    INPUT,
    bits,
    config_of,
    leftovers,
    logits_of,
    reloaded,
    shares,
    taken,
    tensors_of,
    with_config,
    with_tensors,
)
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe


def _conflict(target: Path) -> Path:
    return with_config(llama(target, tied=False), tie_word_embeddings=True)


def test_case_06_extend_keeps_both_tables_of_a_conflict(tmp_path: Path) -> None:
    source, out = _conflict(tmp_path / "source"), tmp_path / "out"
    assert vocabsurgeon("inspect", source, "--json").document["tie"]["effective"] == "version-dependent"
    report = extended(source, out, *(f"<{number}>" for number in range(8)))
    old, new = tensors_of(source), tensors_of(out)
    assert all(bits(old[key]) == bits(new[key][:32]) and len(new[key]) == 40 for key in (INPUT, HEAD))
    assert config_of(out)["tie_word_embeddings"] is False
    model = reloaded(out)
    assert not shares(model) and torch.equal(model.lm_head.weight[:32], old[HEAD])
    assert any("two different tables" in note for note in report.to_dict()["notes"])


def test_case_06_tie_refuses_a_conflict(tmp_path: Path) -> None:
    source, out = _conflict(tmp_path / "source"), tmp_path / "out"
    ran = vocabsurgeon("tie", source, out)
    assert ran.code == 1 and leftovers(out) == [] and "differ" in ran.line


def test_case_07_headless_is_refused_and_both_ways_out_work(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), tie_word_embeddings=False)
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>")
    assert ran.code == 2 and "`vocabsurgeon tie`" in ran.line and "`vocabsurgeon untie`" in ran.line
    original = reloaded(taken(tmp_path / "original"))
    for operation, shared in (("tie", True), ("untie", False)):
        assert vocabsurgeon(operation, source, tmp_path / operation).code == 0
        model = reloaded(tmp_path / operation)
        assert shares(model) is shared and np.array_equal(logits_of(model), logits_of(original))


def test_case_08_untie_stores_a_copy_and_reloads_bit_equal(tmp_path: Path) -> None:
    source, out = llama(tmp_path / "source"), tmp_path / "out"
    assert vocabsurgeon("untie", source, out).code == 0
    before, after = reloaded(source), reloaded(out)
    assert not shares(after) and np.array_equal(logits_of(before, 32), logits_of(after, 32))
    after.save_pretrained(tmp_path / "saved")
    assert HEAD in tensors_of(tmp_path / "saved"), "the head lives through stock's own save"


def test_case_08_the_flag_is_written_at_every_level(tmp_path: Path) -> None:
    source = llama(tmp_path / "source")
    nested = {
        "text_config": {"vocab_size": 32},
        "decoder": {"tie_word_embeddings": True},
        "vision_config": {"width": 4},
    }
    with_config(source, **nested)
    assert vocabsurgeon("untie", source, tmp_path / "out").code == 0
    config = config_of(tmp_path / "out")
    assert [config[key].get("tie_word_embeddings") for key in nested] == [False, False, None]


def test_case_09_a_merged_adapter_is_a_conflict_and_the_distance_is_told(tmp_path: Path) -> None:
    source = llama(tmp_path / "source")

    def merge(tensors: dict[str, torch.Tensor]) -> None:
        tensors[HEAD] = tensors[INPUT].clone()
        tensors[HEAD][3] += 0.5
        tensors[INPUT][5, 0] -= 0.25

    with_tensors(source, merge)
    tie = vocabsurgeon("inspect", source, "--compare", "--json").document["tie"]
    assert (tie["state"], tie["max_abs_diff"], tie["equal_rows"]) == ("conflict", pytest.approx(0.5), 30)
    ran = vocabsurgeon("tie", source, tmp_path / "out")
    assert ran.code == 1 and "max abs difference 0.5" in ran.line and "30 of 32 rows equal" in ran.line
    extended(source, tmp_path / "grown", "<a>")
    assert torch.equal(tensors_of(tmp_path / "grown")[HEAD][:32], tensors_of(source)[HEAD])


@pytest.mark.parametrize("family", FAMILIES)
def test_case_10_an_absent_flag_means_the_default_of_the_class(family: str, tmp_path: Path) -> None:
    import transformers

    source = with_config(taken(tmp_path / "source", family), tie_word_embeddings=None)
    default = transformers.AutoConfig.from_pretrained(source).tie_word_embeddings
    found = describe(Checkpoint.open(source)).tie
    assert found.declared is default
    assert any("absent" in line for line in found.evidence)
    assert found.state == ("tied" if default else "headless")


def test_case_10_the_default_is_written_out_by_untie(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source", "gpt2"), tie_word_embeddings=None)
    assert vocabsurgeon("untie", source, tmp_path / "out").code == 0
    assert config_of(tmp_path / "out")["tie_word_embeddings"] is False
    assert not shares(reloaded(tmp_path / "out"))
