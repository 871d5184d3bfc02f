"""`plan_untie`: two stored tables, and a config that says so at every level. Pure."""

from __future__ import annotations

from vocabsurgeon.checkpoint.edits import CopyTensor, TensorEdit
from vocabsurgeon.surgery.config_edits import tie_flag_values
from vocabsurgeon.surgery.flags import no_change, refuse, retied
from vocabsurgeon.surgery.operations import OPERATIONS, Action
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import CopyIdentical
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.tie_state import TieState


def plan_untie(description: Description) -> Plan | Refusal:
    """Store the one table a second time under the other role's name, or set the flags where two are stored already.

    Refused where the class shares the tables whatever the file says: an equal copy would be one parameter again.
    """
    state, family = description.tie.state, description.tables.family
    action = OPERATIONS[state, "untie"]
    if action is Action.NOTHING:
        also = ", and equal bit for bit" if state is TieState.UNTIED_EQUAL else ""
        return no_change(description, "untie", f"the tables are untied already{also}")
    if action is Action.REFUSE:
        return refuse(description, "untie")
    if family is not None and family.tie_forced and state is not TieState.CONFLICT:
        return _forced(description, family.model_type)
    edits, promises = _copied(description) if action is Action.STORE_COPY else ((), ())
    values = tie_flag_values(description.source.config, family, False)
    wanted = TieState.UNTIED if state is TieState.CONFLICT else TieState.UNTIED_EQUAL
    return retied(description, "untie", wanted, edits, values, promises)


def _copied(description: Description) -> tuple[tuple[TensorEdit, ...], tuple[CopyIdentical, ...]]:
    """A tied table is stored under either name; the copy gets the other."""
    tables = description.tables
    other = tables.output_name if tables.input else tables.input_name
    assert other is not None
    return (CopyTensor(other, tables.main.key),), (CopyIdentical(other, tables.main.key),)


def _forced(description: Description, model_type: str) -> Refusal:
    return Refusal(
        "untie",
        f"{model_type} shares equal tables at every load, whatever the file says: untying them would not last",
        description.tie.evidence,
        ("train or edit one of the tables first: two different tables stay two",),
    )
