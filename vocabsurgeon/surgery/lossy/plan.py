"""The plan that makes one table out of two different ones, or the refusal with what each way would cost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vocabsurgeon.checkpoint.edits import DropTensor, MeanOfTensors, ReplaceTensor, TensorEdit, WriteValues
from vocabsurgeon.surgery.cost.result import Cost, CostTable
from vocabsurgeon.surgery.lossy.candidates import REFIT, Candidate
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.lossy.weigh import Weighed
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.promises import DropLossless, KeptIdentical, MeanAsPlanned, Promise, ValuesAsPlanned
from vocabsurgeon.vocabulary.describe import Description

DIFFER = "the two tables differ: tying would lose one of them"
KEEP_BOTH = "keep both: `vocabsurgeon untie` makes the flags say what the files hold"


def choose(description: Description, request: TieRequest, weighed: Weighed) -> Candidate | Refusal:
    """The candidate that the request allows; else the refusal, exit 1, with the cost of every one that was measured."""
    refusal = _impossible(description, request, weighed)
    if refusal is not None:
        return refusal
    chosen = _chosen(request, weighed)
    cost = _cost_of(chosen, weighed) if chosen else None
    on_text = weighed.cost is not None and not weighed.cost.random_ids
    if chosen is not None and (request.allow_lossy or (on_text and _within(cost, request.max_kl))):
        return chosen
    return Refusal(
        "tie",
        f"{DIFFER}; {_told(cost, request, weighed.cost)}",
        description.tie.evidence,
        _ways_out(request, named=chosen is not None),
        exit_code=1,
        details=_unchosen(weighed),
    )


def merged(
    description: Description, chosen: Candidate, twins: tuple[str, ...]
) -> tuple[tuple[TensorEdit, ...], tuple[Promise, ...]]:
    """Edits and promises of `chosen`: one table stays under the input side's name, the head and `twins` are dropped."""
    kept, head = description.tables.partner, description.tables.output
    assert kept is not None and head is not None
    edits: list[TensorEdit] = [DropTensor(key) for key in (head.key, *twins)]
    promises: list[Promise] = []
    if chosen.keep == "mean":
        edits.append(MeanOfTensors(kept.key, (kept.key, head.key)))
        promises.append(MeanAsPlanned(kept.key, head.key))
    else:
        source = head.key if chosen.keep == "output" else kept.key
        edits += [ReplaceTensor(kept.key, source)] if source != kept.key else []
        promises.append(KeptIdentical(kept.key, source, head.key))
        promises += [DropLossless(key, kept.key) for key in twins if chosen.keep == "input"]
    for vector in chosen.written:
        values = tuple(float(value) for value in vector.values)
        edits.append(WriteValues(vector.key, values))
        promises.append(ValuesAsPlanned(vector.key, values))
    return tuple(edits), tuple(promises)


def details(description: Description, chosen: Candidate, weighed: Weighed) -> dict[str, Any]:
    """What the report adds: the measured costs, which candidate was kept, what was dropped."""
    head = description.tables.output
    assert head is not None
    dropped = {"key": head.key, "bytes": head.info.nbytes}
    return {"cost": _json(weighed.cost), "kept": chosen.name, "dropped": dropped}


def notes(description: Description, chosen: Candidate, measured: bool) -> Iterator[str]:
    """What the user should know of the result, a line each."""
    kept, head = description.tables.partner, description.tables.output
    assert kept is not None and head is not None
    if not measured:
        yield "cost not measured"
    yield f"{head.key} was dropped; it differed from {kept.key}: {_KEPT[chosen.keep]}"
    if kept.info.dtype != head.info.dtype:
        stored = head.info.dtype.name if chosen.keep == "output" else kept.info.dtype.name
        yield f"the tables were {kept.info.dtype.name} and {head.info.dtype.name}; the one that is left is {stored}"
    for vector in chosen.written:
        yield f"{vector.key} was rewritten so that the kept table stands in for the head column by column"


_KEPT = {
    "input": "its place is taken by the input embedding, the input side is as it was",
    "output": "its bits are the one table now, the input side has changed",
    "mean": "the one table is the mean of both, both sides have changed",
}


def _impossible(description: Description, request: TieRequest, weighed: Weighed) -> Refusal | None:
    if not request.probe and request.keep is None and request.allow_lossy:
        reason = f"{DIFFER}, and --no-probe leaves open which"
        ways = ("name the table that stays: --keep input|output|mean",)
        return Refusal("tie", reason, description.tie.evidence, ways, details=_unchosen(weighed))
    return None


def _chosen(request: TieRequest, weighed: Weighed) -> Candidate | None:
    """The candidate that the request names, else the one of the least cost; None where nothing tells."""
    name: str | None = request.keep if request.keep != "auto" else None
    if name is not None and request.refit_norm:
        name += REFIT
    if name is None and weighed.cost is not None and weighed.cost.best is not None:
        name = weighed.cost.best.candidate
    return next((candidate for candidate in weighed.candidates if candidate.name == name), None)


def _cost_of(chosen: Candidate, weighed: Weighed) -> Cost | None:
    costs = weighed.cost.costs if weighed.cost else ()
    return next((cost for cost in costs if cost.candidate == chosen.name), None)


def _within(cost: Cost | None, bound: float | None) -> bool:
    return bound is not None and cost is not None and cost.kl_mean is not None and cost.kl_mean <= bound


def _told(cost: Cost | None, request: TieRequest, measured: CostTable | None) -> str:
    if cost is None or cost.kl_mean is None:
        reason = (cost.note if cost else None) or (measured.reason if measured else None)
        return f"cost not measured: {reason}" if reason else "cost not measured"
    text = f"keeping {cost.candidate} costs a mean KL of {cost.kl_mean:.4g} nats per token"
    if cost.top1_agreement is not None:
        text += f", top-1 agreement {cost.top1_agreement:.1%}"
    if request.max_kl is None:
        return text
    if measured is not None and measured.random_ids:
        return f"{text} on random ids, which --max-kl does not count"
    return f"{text}, more than --max-kl {request.max_kl:g}"


def _ways_out(request: TieRequest, *, named: bool) -> tuple[str, ...]:
    bound = " or --max-kl X" if request.probe else ""
    name = "" if named else " and --keep input|output|mean"
    return KEEP_BOTH, f"accept the loss: --allow-lossy{bound}{name}"


def _unchosen(weighed: Weighed) -> dict[str, Any]:
    return {"cost": _json(weighed.cost), "kept": None, "dropped": None}


def _json(cost: CostTable | None) -> Mapping[str, Any] | None:
    return None if cost is None else cost.to_dict()
