"""Tying two different tables, end to end without running the model: bits, states, reloads, and what `verify` says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.runner import vocabsurgeon
from tests.surgery.lossy.pairs import kept
from tests.surgery.shelf import (
    HEAD,
    INPUT,
    bits,
    config_of,
    contents,
    leftovers,
    logits_of,
    reloaded,
    report_of,
    shares,
    shelved,
    taken,
    tensors_of,
    with_config,
    with_tensors,
)
from tests.surgery.states import in_state
from vocabsurgeon.surgery.lossy.request import Keep
from vocabsurgeon.vocabulary.tie_state import TieState

WAYS: tuple[Keep, ...] = ("input", "output", "mean")
ALLOWED = ("--no-probe", "--allow-lossy")


def _wanted(source: Path, keep: Keep) -> torch.Tensor:
    """The one table by the rules, on whole tensors."""
    first, second = (tensors_of(source)[key] for key in (INPUT, HEAD))
    mean = ((first.double() + second.double()) / 2).to(first.dtype)
    return {"input": first, "output": second, "mean": mean}[keep]


@pytest.mark.parametrize("keep", WAYS)
@pytest.mark.parametrize("options", [{}, {"max_shard_size": "6KB"}, {"dtype": "bfloat16"}], ids=str)
def test_tie_keeps_the_table_it_was_told_to(keep: Keep, options: dict[str, str], tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False, **options)
    before = contents(source)
    report = kept(source, tmp_path / "out", keep)
    assert contents(source) == before
    after, old = tensors_of(tmp_path / "out"), tensors_of(source)
    assert bits(after[INPUT]) == bits(_wanted(source, keep)) and HEAD not in after
    assert all(bits(after[key]) == bits(old[key]) for key in old if key not in (INPUT, HEAD))
    assert (
        report.after and report.after.tie.state is TieState.TIED and config_of(tmp_path / "out")["tie_word_embeddings"]
    )
    assert shares(reloaded(tmp_path / "out"))


@pytest.mark.parametrize("keep", WAYS)
def test_the_result_computes_what_a_model_with_that_table_on_both_sides_does(keep: Keep, tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    kept(source, tmp_path / "out", keep)
    table = _wanted(source, keep)
    with_tensors(source, lambda tensors: tensors.update({INPUT: table, HEAD: table.clone()}))
    assert np.array_equal(logits_of(reloaded(tmp_path / "out")), logits_of(reloaded(source)))


@pytest.mark.parametrize("keep", WAYS)
def test_a_conflict_is_settled_by_naming_the_table(keep: Keep, tmp_path: Path) -> None:
    source = in_state(TieState.CONFLICT, tmp_path / "source")
    ran = vocabsurgeon("tie", source, tmp_path / "out", "--keep", keep, *ALLOWED, "--json")
    assert ran.code == 0 and ran.document["before"]["tie"]["state"] == "conflict"
    assert ran.document["tie"]["state"] == "tied" and set(ran.document["proof"].values()) == {True}
    assert bits(tensors_of(tmp_path / "out")[INPUT]) == bits(_wanted(source, keep))
    assert shares(reloaded(tmp_path / "out"))


def test_doing_it_again_changes_nothing(tmp_path: Path) -> None:
    kept(shelved(tied=False), tmp_path / "once", "mean", refit=True)
    ran = vocabsurgeon("tie", tmp_path / "once", tmp_path / "twice", "--keep", "mean", "--refit-norm", "--json")
    assert ran.code == 0 and ran.document["changed"] is False
    assert contents(tmp_path / "twice") == contents(tmp_path / "once")


def test_the_report_says_what_was_kept_and_dropped_and_that_the_cost_is_not_known(tmp_path: Path) -> None:
    arguments = ("tie", shelved(tied=False), tmp_path / "out", "--keep", "output", *ALLOWED)
    planned = vocabsurgeon(*arguments, "--dry-run", "--json").document
    assert leftovers(tmp_path / "out") == []
    document = vocabsurgeon(*arguments, "--json").document
    for told in (planned, document, report_of(tmp_path / "out")):
        assert told["cost"] is None and told["kept"] == "output"
        assert told["dropped"] == {"key": HEAD, "bytes": 4096}
        assert any("the input side has changed" in note for note in told["notes"])


@pytest.mark.parametrize("keep", WAYS)
def test_verify_proves_a_lossy_tie_by_its_record_and_finds_it_lossy_without(keep: Keep, tmp_path: Path) -> None:
    source, out = shelved(tied=False), tmp_path / "out"
    kept(source, out, keep, refit=keep != "output")
    assert vocabsurgeon("verify", source, out).code == 0
    ran = vocabsurgeon("verify", source, out, "--expect", "tied", "--json")
    assert ran.code == 1 and ran.document["proof"]["drop_lossless"] is (keep == "output")


def test_linked_shards_are_those_that_no_edit_touches(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False, max_shard_size="6KB")
    kept(source, tmp_path / "out", "input", link=True)
    linked = [path for path in (tmp_path / "out").glob("*.safetensors") if path.stat().st_nlink == 2]
    assert linked and bits(tensors_of(tmp_path / "out")[INPUT]) == bits(tensors_of(source)[INPUT])


REFUSED = {
    "no table named": (("--no-probe",), 1, "cost not measured"),
    "allowed but not named": (ALLOWED, 2, "--keep input|output|mean"),
    "auto without a probe": (("--keep", "auto", "--no-probe"), 2, "--keep auto"),
    "a bound without a probe": (("--max-kl", "1", "--no-probe"), 2, "--max-kl"),
    "a probe and none": (("--probe", "x", "--no-probe"), 2, "--no-probe"),
    "named but not allowed": (("--keep", "input", "--no-probe"), 1, "--allow-lossy"),
    "nothing to refit": (("--keep", "output", "--refit-norm"), 2, "--refit-norm"),
    "no bound": (("--max-kl", "nan"), 2, "--max-kl"),
}


@pytest.mark.parametrize(("options", "code", "told"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_not_allowed_is_told_in_one_line(
    options: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    ran = vocabsurgeon("tie", shelved(tied=False), tmp_path / "out", *options)
    assert ran.code == code and told in ran.stderr and leftovers(tmp_path / "out") == []


def test_a_norm_that_cannot_be_refitted_is_told_before_anything_is_written(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    with_config(source, model_type="olmo", architectures=["OlmoForCausalLM"])
    ran = vocabsurgeon("tie", source, tmp_path / "out", "--keep", "input", "--refit-norm", *ALLOWED)
    assert ran.code == 2 and "--refit-norm: no norm can be refitted in OlmoForCausalLM" in ran.line


def test_what_cannot_be_out_is_told_before_the_model_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.surgery.lossy.weigh.measure_cost", None)
    (tmp_path / "out").mkdir()
    ran = vocabsurgeon("tie", shelved(tied=False), tmp_path / "out", "--allow-lossy")
    assert ran.code == 2 and "exists already" in ran.line
    assert "is the source itself" in vocabsurgeon("tie", shelved(tied=False), shelved(tied=False), "--overwrite").line


def test_the_probe_is_read_before_the_model_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.surgery.lossy.weigh.measure_cost", None)
    ran = vocabsurgeon("tie", shelved(tied=False), tmp_path / "out", "--probe", tmp_path / "absent.txt")
    assert ran.code == 2 and "absent.txt" in ran.line


MEASURED = {
    "auto": ((), "least"),
    "named": (("--keep", "output"), "output"),
    "refitted": (("--keep", "input", "--refit-norm"), "input+refit"),
}


@pytest.mark.parametrize(("options", "kept_"), MEASURED.values(), ids=list(MEASURED))
def test_the_measured_cost_is_in_the_refusal_and_in_the_report(
    options: tuple[str, ...], kept_: str, tmp_path: Path
) -> None:
    probe = tmp_path / "probe.txt"
    probe.write_text(" ".join(f"w{number % 63 + 1}" for number in range(200)))
    arguments = ("tie", shelved(tied=False), tmp_path / "out", "--probe", probe, *options, "--json")
    refused = vocabsurgeon(*arguments)
    assert refused.code == 1 and leftovers(tmp_path / "out") == []
    costs = {entry["candidate"]: entry["kl_mean"] for entry in refused.document["cost"]["candidates"]}
    chosen = min(costs, key=lambda name: costs[name]) if kept_ == "least" else kept_
    assert costs[chosen] > 0 and f"keeping {chosen} costs a mean KL" in refused.line
    assert vocabsurgeon(*arguments, "--max-kl", str(costs[chosen] * 0.9)).code == 1
    done = vocabsurgeon(*arguments, "--max-kl", str(costs[chosen] * 1.1))
    assert done.code == 0 and done.document["kept"] == chosen
    again = {entry["candidate"]: entry["kl_mean"] for entry in done.document["cost"]["candidates"]}
    assert again == pytest.approx(costs) and report_of(tmp_path / "out")["cost"] == done.document["cost"]
