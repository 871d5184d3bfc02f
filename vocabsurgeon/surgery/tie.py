"""`plan_tie`: one parameter for both roles. Pure: `describe` compared the tables, `weigh` measured what is lost."""

from __future__ import annotations

from dataclasses import replace

from vocabsurgeon.checkpoint.edits import DropTensor, TensorEdit
from vocabsurgeon.surgery.config_edits import tie_flag_values
from vocabsurgeon.surgery.flags import no_change, refuse, refuse_scaled, refuse_tied_along, retied
from vocabsurgeon.surgery.lossy.plan import KEEP_BOTH, choose, details, merged, notes
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.lossy.weigh import Weighed
from vocabsurgeon.surgery.operations import OPERATIONS, Action
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import DropLossless
from vocabsurgeon.surgery.quantized import refuse_quantized
from vocabsurgeon.surgery.wrapped import refuse_wrapped
from vocabsurgeon.vocabulary.describe import Description, tie_json
from vocabsurgeon.vocabulary.tie_state import TieState


def plan_tie(
    description: Description, request: TieRequest = TieRequest(), weighed: Weighed | None = None
) -> Plan | Refusal:
    """Drop a head that repeats the input embedding bit for bit, or set the flag of a headless checkpoint.

    Two different tables become one as `request` says, where it allows the loss that `weighed` tells of; else they are
    refused (exit 1). A class that never shares them, tables of two widths and quantized tables are refused (exit 2).
    """
    planned = _refused(description) or _planned(description, request, weighed or Weighed((), None))
    told = {"tie": tie_json(description.tie)} if isinstance(planned, Refusal) else {}
    return replace(planned, details={**_NOTHING_LOST, **told, **planned.details})


def is_lossy(description: Description) -> bool:
    """Whether tying has two different tables to choose between, so that there is something to weigh."""
    return OPERATIONS[description.tie.state, "tie"] is Action.LOSSY_TIE and _refused(description) is None


_NOTHING_LOST = {"cost": None, "kept": None, "dropped": None}


def _planned(description: Description, request: TieRequest, weighed: Weighed) -> Plan | Refusal:
    action = OPERATIONS[description.tie.state, "tie"]
    if action is Action.NOTHING and len(set(description.source.config.flags().values())) < 2:
        return no_change(description, "tie", "the tables are tied already")
    if weighed.apart:
        return _others_apart(description, weighed.apart)
    if action is Action.LOSSY_TIE:
        return _lossy(description, request, weighed)
    edits, promises = _dropped(description, weighed.twins) if action is Action.DROP_COPY else ((), ())
    edits = (*edits, *map(DropTensor, weighed.idle))
    values = tie_flag_values(description.source.config, description.tables.family, True)
    return retied(description, "tie", TieState.TIED, edits, values, promises)


def _lossy(description: Description, request: TieRequest, weighed: Weighed) -> Plan | Refusal:
    chosen = choose(description, request, weighed)
    if isinstance(chosen, Refusal):
        return chosen
    edits, promises = merged(description, chosen, weighed.twins)
    edits = (*edits, *map(DropTensor, weighed.idle))
    values = tie_flag_values(description.source.config, description.tables.family, True)
    plan = retied(description, "tie", TieState.TIED, edits, values, promises)
    told = (*plan.notes, *notes(description, chosen, weighed.cost is not None))
    return replace(plan, notes=told, details=details(description, chosen, weighed))


def _dropped(
    description: Description, twins: tuple[str, ...]
) -> tuple[tuple[TensorEdit, ...], tuple[DropLossless, ...]]:
    """The head and the further tables of its bits go; one stays."""
    kept, head = description.tables.partner, description.tables.output
    assert kept is not None and head is not None
    gone = (head.key, *twins)
    return tuple(DropTensor(key) for key in gone), tuple(DropLossless(key, kept.key) for key in gone)


def _refused(description: Description) -> Refusal | None:
    """The refusal that no request can change."""
    if refusal := refuse_wrapped(description, "tie") or refuse_quantized(description, "tie"):
        return refusal
    action, family = OPERATIONS[description.tie.state, "tie"], description.tables.family
    if action is Action.REFUSE:
        return refuse(description, "tie")
    if refusal := refuse_scaled(description) or (
        None if action is Action.NOTHING else refuse_tied_along(description, "tie")
    ):
        return refusal
    if action is not Action.NOTHING and family is not None and family.tie_forced is False:
        return _kept_apart(description, family.model_type)
    if action is Action.LOSSY_TIE and _shapes(description) > 1:
        reason = "the two tables have different shapes: no one table can be both"
        return Refusal("tie", reason, description.tie.evidence, (KEEP_BOTH,))
    return None


def _shapes(description: Description) -> int:
    return len({table.info.shape for table in (description.tables.partner, description.tables.output) if table})


def _others_apart(description: Description, keys: tuple[str, ...]) -> Refusal:
    return Refusal(
        "tie",
        f"tying would also lose {' and '.join(keys)}: the class makes it one parameter with another that differs",
        description.tie.evidence,
        (KEEP_BOTH,),
        exit_code=1,
    )


def _kept_apart(description: Description, model_type: str) -> Refusal:
    return Refusal(
        "tie",
        f"{model_type} keeps the two tables apart at every load, whatever the file says: without a head it is random",
        description.tie.evidence,
        ("keep the two stored tables: `vocabsurgeon untie` stores a head where it is missing",),
    )
