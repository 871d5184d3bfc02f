"""`plan_tie`: one parameter for both roles, where that loses nothing. Pure; the tables were compared by `describe`."""

from __future__ import annotations

from vocabsurgeon.checkpoint.edits import DropTensor, TensorEdit
from vocabsurgeon.surgery.config_edits import tie_flag_values
from vocabsurgeon.surgery.flags import no_change, refuse, retied
from vocabsurgeon.surgery.operations import OPERATIONS, Action
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import DropLossless
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.tie_state import TieState


def plan_tie(description: Description) -> Plan | Refusal:
    """Drop a head that repeats the input embedding bit for bit, or set the flag of a headless checkpoint.

    Two different tables are refused (exit 1) with what is known of their distance: one of them would be lost. So is a
    class that never shares them (exit 2).
    """
    action = OPERATIONS[description.tie.state, "tie"]
    if action is Action.NOTHING:
        return no_change(description, "tie", "the tables are tied already")
    if action is Action.LOSSY_TIE:
        return _lossy(description)
    if action is Action.REFUSE:
        return refuse(description, "tie")
    family = description.tables.family
    if family is not None and family.tie_forced is False:
        return _kept_apart(description, family.model_type)
    edits, promises = _dropped(description) if action is Action.DROP_COPY else ((), ())
    values = tie_flag_values(description.source.config, family, True)
    return retied(description, "tie", TieState.TIED, edits, values, promises)


def _dropped(description: Description) -> tuple[tuple[TensorEdit, ...], tuple[DropLossless, ...]]:
    kept, head = description.tables.input, description.tables.output
    assert kept is not None and head is not None
    return (DropTensor(head.key),), (DropLossless(head.key, kept.key),)


def _kept_apart(description: Description, model_type: str) -> Refusal:
    return Refusal(
        "tie",
        f"{model_type} keeps the two tables apart at every load, whatever the file says: without a head it is random",
        description.tie.evidence,
        ("keep the two stored tables: `vocabsurgeon untie` stores a head where it is missing",),
    )


def _lossy(description: Description) -> Refusal:
    return Refusal(
        "tie",
        "the two tables differ: tying would lose one of them",
        description.tie.evidence,
        ("keep both: `vocabsurgeon untie` makes the flags say what the files hold",),
        exit_code=1,
    )
