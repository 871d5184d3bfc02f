"""The pure plan: what is chosen by the costs, what is refused and with which exit code, what the report says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surgery.lossy.pairs import described
from tests.surgery.shelf import HEAD, INPUT, shelved, taken, with_tensors
from vocabsurgeon.surgery.cost.result import Cost, CostTable
from vocabsurgeon.surgery.lossy.candidates import candidates
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.lossy.weigh import Weighed
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.tie import is_lossy, plan_tie


def weighed(request: TieRequest, **costs: float | None) -> Weighed:
    """What weighing the untied tiny llama would give, were these the costs (`_refit` for `+refit`)."""
    found = tuple(Cost(name.replace("_", "+"), kl) for name, kl in costs.items())
    return Weighed(candidates(described(shelved(tied=False)), request), CostTable(found, "a probe"))


def planned(request: TieRequest, **costs: float | None) -> Plan | Refusal:
    """The plan for the untied tiny llama."""
    return plan_tie(described(shelved(tied=False)), request, weighed(request, **costs))


ALL = {"input": 0.3, "output": 0.1, "mean": 0.2, "input_refit": 0.05, "mean_refit": 0.4}
CHOSEN = {
    "least of all": (TieRequest(allow_lossy=True, refit_norm=True), ALL, "input+refit"),
    "least without a refit": (TieRequest(allow_lossy=True), {"input": 0.3, "output": 0.1, "mean": 0.2}, "output"),
    "named, though not the least": (TieRequest("mean", allow_lossy=True), {"mean": 0.2}, "mean"),
    "named with a refit": (TieRequest("input", refit_norm=True, allow_lossy=True), ALL, "input+refit"),
    "within the bound": (TieRequest(max_kl=0.1), {"input": 0.3, "output": 0.1, "mean": 0.2}, "output"),
    "beyond the bound but allowed": (TieRequest("input", max_kl=0.1, allow_lossy=True), {"input": 0.3}, "input"),
    "one that could not be measured": (TieRequest("auto", allow_lossy=True), {"input": None, "mean": 9.0}, "mean"),
}


@pytest.mark.parametrize(("request_", "costs", "name"), CHOSEN.values(), ids=list(CHOSEN))
def test_the_candidate_is_chosen_by_name_or_by_cost(request_: TieRequest, costs: dict[str, float], name: str) -> None:
    plan = planned(request_, **costs)
    assert isinstance(plan, Plan) and plan.details["kept"] == name
    assert plan.details["dropped"] == {"key": HEAD, "bytes": 64 * 16 * 4}
    assert len(plan.details["cost"]["candidates"]) == len(costs) and plan.notes


REFUSED = {
    "not allowed": (TieRequest(refit_norm=True), ALL, 1, "keeping input+refit costs a mean KL of 0.05 nats per token"),
    "beyond the bound": (TieRequest("input", max_kl=0.1), {"input": 0.3}, 1, "more than --max-kl 0.1"),
    "bound met by another alone": (TieRequest("input", max_kl=0.1), {"input": 0.3, "output": 0.0}, 1, "keeping input"),
    "nothing measured": (TieRequest(max_kl=9.0), {"input": None, "output": None}, 1, "cost not measured"),
    "nothing measured, though allowed": (TieRequest(allow_lossy=True), {"input": None}, 1, "cost not measured"),
}


@pytest.mark.parametrize(("request_", "costs", "code", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_costs_more_than_allowed_is_refused_with_the_costs(
    request_: TieRequest, costs: dict[str, float], code: int, reason: str
) -> None:
    refusal = planned(request_, **costs)
    assert isinstance(refusal, Refusal) and refusal.exit_code == code and reason in refusal.reason
    document = refusal.to_dict()
    assert (
        len(document["cost"]["candidates"]) == len(costs) and document["kept"] is None and document["dropped"] is None
    )


def test_without_a_probe_the_cost_is_not_measured_and_has_to_be_allowed() -> None:
    refusal = plan_tie(described(shelved(tied=False)), TieRequest("input", probe=False), Weighed((), None))
    assert isinstance(refusal, Refusal) and refusal.exit_code == 1 and "cost not measured" in refusal.reason
    assert refusal.to_dict()["cost"] is None and "--max-kl" not in " ".join(refusal.ways_out)


def test_without_a_probe_the_table_has_to_be_named() -> None:
    refusal = plan_tie(described(shelved(tied=False)), TieRequest(allow_lossy=True, probe=False), Weighed((), None))
    assert isinstance(refusal, Refusal) and refusal.exit_code == 2 and "--keep" in " ".join(refusal.ways_out)


def test_tables_of_two_shapes_are_no_pair(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    with_tensors(source, lambda tensors: tensors.update({HEAD: tensors[HEAD][:, :8]}))
    description = described(source)
    refusal = plan_tie(description, TieRequest("input", allow_lossy=True, probe=False))
    assert not is_lossy(description)
    assert isinstance(refusal, Refusal) and refusal.exit_code == 2 and "different shapes" in refusal.reason


@pytest.mark.parametrize("tied", [True, False])
def test_there_is_something_to_weigh_only_between_two_different_tables(tied: bool) -> None:
    assert is_lossy(described(shelved(tied=tied))) is not tied


def test_equal_tables_are_tied_as_ever_whatever_is_asked_for(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", tied=False)
    with_tensors(source, lambda tensors: tensors.update({HEAD: tensors[INPUT].clone()}))
    plain = plan_tie(described(source))
    for request in (TieRequest("output", allow_lossy=True), TieRequest(probe=False), TieRequest("mean", max_kl=0.0)):
        plan = plan_tie(described(source), request)
        assert plan == plain and plan.details == {"cost": None, "kept": None, "dropped": None}


def test_why_nothing_was_measured_is_told() -> None:
    request = TieRequest("input")
    costs = CostTable((Cost("input"),), "a probe", reason="no such class")
    refusal = plan_tie(described(shelved(tied=False)), request, Weighed(weighed(request).candidates, costs))
    assert isinstance(refusal, Refusal) and "cost not measured: no such class" in refusal.reason
