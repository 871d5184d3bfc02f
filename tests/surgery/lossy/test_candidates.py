"""Candidates: which ways there are, and that a candidate's table is the one that tying writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.surgery.lossy.pairs import described, kept, keys
from tests.surgery.shelf import bits, shelved, taken, tensors_of, with_config, with_tensors
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.lossy.candidates import Candidate, candidate_table, candidates
from vocabsurgeon.surgery.lossy.request import Keep, TieRequest

WAYS: dict[tuple[Keep | None, bool], tuple[str, ...]] = {
    (None, False): ("input", "output", "mean"),
    ("auto", True): ("input", "output", "mean", "input+refit", "mean+refit"),
    ("input", False): ("input",),
    ("input", True): ("input", "input+refit"),
    ("mean", True): ("mean", "mean+refit"),
    ("output", False): ("output",),
}


@pytest.mark.parametrize(("keep", "refit"), WAYS, ids=str)
def test_every_way_that_the_request_leaves_is_weighed(keep: Keep | None, refit: bool) -> None:
    found = candidates(described(shelved(tied=False)), TieRequest(keep, refit_norm=refit))
    assert tuple(candidate.name for candidate in found) == WAYS[keep, refit]
    assert all((candidate.gain is not None) == candidate.name.endswith("+refit") for candidate in found)


@pytest.mark.parametrize("keep", ["input", "output", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_table_of_a_candidate_is_the_one_that_is_written(keep: Keep, dtype: str, tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False, dtype=dtype)
    kept(source, tmp_path / "out", keep)
    table = candidate_table(described(source), Candidate(keep, keep))
    assert table.tobytes() == bits(tensors_of(tmp_path / "out")[keys(source)[0]])


@pytest.mark.parametrize(
    "given",
    [
        {"keep": "auto", "probe": False},
        {"max_kl": 0.1, "probe": False},
        {"probe_file": Path("x"), "probe": False},
        {"keep": "output", "refit_norm": True},
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_bad_usage(given: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(UsageError):
        TieRequest(**given)


def test_without_a_norm_that_could_be_refitted_the_reason_is_told(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    with_config(source, model_type="olmo", architectures=["OlmoForCausalLM"])
    with pytest.raises(UsageError, match="--refit-norm: no norm can be refitted in OlmoForCausalLM"):
        candidates(described(source), TieRequest("input", refit_norm=True))
    with_config(source, model_type="unheard_of", architectures=["UnheardOfForCausalLM"])
    with pytest.raises(UsageError, match="--refit-norm: which norm feeds the head"):
        candidates(described(source), TieRequest("input", refit_norm=True))


def test_tables_of_two_dtypes_become_one_of_the_inputs_or_the_kept_ones(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    first, second = keys(source)
    with_tensors(source, lambda tensors: tensors.update({second: tensors[second].bfloat16()}))
    before = tensors_of(source)
    wanted = {
        "input": before[first],
        "output": before[second],
        "mean": ((before[first].double() + before[second].double()) / 2).float(),
    }
    ways: tuple[Keep, ...] = ("input", "output", "mean")
    for keep in ways:
        report = kept(source, tmp_path / keep, keep)
        found = tensors_of(tmp_path / keep)[first]
        assert found.dtype == wanted[keep].dtype and torch.equal(found, wanted[keep])
        assert any("the one that is left is" in note for note in report.plan.notes)
