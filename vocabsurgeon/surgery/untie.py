"""`plan_untie`: two stored tables, and a config that says so at every level. Pure."""

from __future__ import annotations

from dataclasses import replace

from vocabsurgeon.checkpoint.edits import CopyTensor, TensorEdit
from vocabsurgeon.surgery.config_edits import tie_flag_values
from vocabsurgeon.surgery.flags import no_change, refuse, refuse_tied_along, retied
from vocabsurgeon.surgery.operations import OPERATIONS, Action
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import CopyIdentical, CopyScaled, Promise
from vocabsurgeon.surgery.quantized import plain_head_notes, plain_head_values, refuse_quantized
from vocabsurgeon.surgery.wrapped import refuse_wrapped
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.readers import heads_dropped
from vocabsurgeon.vocabulary.tie_state import TieState


def plan_untie(description: Description) -> Plan | Refusal:
    """The plan of `untie`, or why not; its notes name the readers that will not use the head of this type."""
    planned = _planned(description)
    if isinstance(planned, Refusal):
        return planned
    dropped = heads_dropped(description.source.config.model_type)
    return replace(planned, notes=(*planned.notes, *map(str, dropped)))


def _planned(description: Description) -> Plan | Refusal:
    """Store the one table a second time under the other role's name, or set the flags where two are stored already.

    Refused where the class shares the tables whatever the file says: an equal copy would be one parameter again.
    """
    if refusal := refuse_wrapped(description, "untie") or refuse_quantized(description, "untie"):
        return refusal
    state, family = description.tie.state, description.tables.family
    action = OPERATIONS[state, "untie"]
    if action is Action.NOTHING and not _left(description):
        also = ", and equal bit for bit" if state is TieState.UNTIED_EQUAL else ""
        return no_change(description, "untie", f"the tables are untied already{also}")
    if action is Action.REFUSE:
        return refuse(description, "untie")
    if family is not None and family.tie_forced and state is not TieState.CONFLICT:
        return _forced(description, family.model_type)
    if refusal := refuse_tied_along(description, "untie"):
        return refusal
    scaled = family is not None and family.scaled_if_tied and state is not TieState.HEADLESS
    if scaled and description.tables.output is not None:
        return _scaled_already(description)
    edits, promises = _copied(description, description.tables.main.info.shape[-1] ** -0.5 if scaled else 1.0)
    config, head = description.source.config, description.tables.output_name
    plain = plain_head_values(config, head or "")
    values = {**tie_flag_values(config, family, False), **plain}
    plan = retied(description, "untie", _state_after(description, scaled), edits, values, promises)
    return replace(plan, notes=(*plan.notes, *plain_head_notes(plain)))


def _copied(description: Description, factor: float) -> tuple[tuple[TensorEdit, ...], tuple[Promise, ...]]:
    """A copy for each key that tying left unstored: the head's, and those of tables and biases tied along with it.

    The head's is multiplied by `factor`: what the class did to the head's input while the tables were tied.
    """
    tables = description.tables
    copies = dict(tables.untied_copies)
    if tables.output is None and tables.output_name is not None:  # a class that never ties has a head of its own too
        copies.setdefault(tables.output_name, tables.main.key)
    edits = [CopyTensor(*copy, factor if copy[0] == tables.output_name else 1.0) for copy in copies.items()]
    return tuple(edits), tuple(_promise(edit) for edit in edits)


def _promise(edit: CopyTensor) -> Promise:
    if edit.factor == 1.0:
        return CopyIdentical(edit.key, edit.source)
    return CopyScaled(edit.key, edit.source, edit.factor)


def _state_after(description: Description, scaled: bool) -> TieState:
    """Two different stored tables stay different; a head that is a copy is equal, unless it was scaled."""
    different = description.tie.values_equal is False
    return TieState.UNTIED if scaled or different else TieState.UNTIED_EQUAL


def _left(description: Description) -> bool:
    """Whether untied tables leave something to write: a further table that is not stored, or levels that disagree."""
    flags = set(description.source.config.flags().values())
    return bool(description.tables.missing) or len(flags) > 1


def _scaled_already(description: Description) -> Refusal:
    family = description.tables.family
    assert family is not None
    return Refusal(
        "untie",
        f"{family.model_type} scales what goes into the head where the flag says tied, and a head is stored already",
        description.tie.evidence,
        ("`vocabsurgeon tie` first, where the two tables are equal",),
    )


def _forced(description: Description, model_type: str) -> Refusal:
    return Refusal(
        "untie",
        f"{model_type} shares equal tables at every load, whatever the file says: untying them would not last",
        description.tie.evidence,
        ("train or edit one of the tables first: two different tables stay two",),
    )
