"""What tie and untie share: the plan that changes the tie state alone, the one that changes nothing, the refusal."""

from __future__ import annotations

from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.edits import CopyTensor, DropTensor, TensorEdit
from vocabsurgeon.surgery.config_edits import Values, config_edit, scale_values
from vocabsurgeon.surgery.omissions import stale_files
from vocabsurgeon.surgery.operations import REASONS, WAYS_OUT
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import (
    ConfigAsIntended,
    FilesCarried,
    IndexExact,
    Promise,
    TieStateAsIntended,
    UntouchedTensorsIdentical,
)
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.families import Family
from vocabsurgeon.vocabulary.meta_device import DECIDED_BY
from vocabsurgeon.vocabulary.tie_state import TieState


def retied(
    description: Description,
    operation: str,
    state: TieState,
    tensor_edits: tuple[TensorEdit, ...],
    values: Values,
    promises: tuple[Promise, ...],
) -> Plan:
    """The plan that leads to `state` by `tensor_edits` and the config `values`; `promises` come on top of the usual."""
    source = description.source
    values = {**scale_values(source.config), **values}
    config_edits = config_edit(source.config, values)
    omitted = stale_files(source, tensors_change=bool(tensor_edits)) if tensor_edits or config_edits else ()
    usual = (
        UntouchedTensorsIdentical(
            edited=tuple(edit.key for edit in tensor_edits if not isinstance(edit, CopyTensor | DropTensor)),
            added=tuple(edit.key for edit in tensor_edits if isinstance(edit, CopyTensor)),
            dropped=tuple(edit.key for edit in tensor_edits if isinstance(edit, DropTensor)),
        ),
        ConfigAsIntended(tuple(values.items())),
        TieStateAsIntended(state, description.vocabulary.rows, *named_keys(description)),
        FilesCarried((CONFIG,) if config_edits else (), tuple(edit.name for edit in omitted)),
        IndexExact(),
    )
    return Plan(operation, tensor_edits, (*config_edits, *omitted), (*promises, *usual))


def no_change(description: Description, operation: str, why: str) -> Plan:
    """The plan that copies everything; its promises say that nothing else happened."""
    promises = (
        UntouchedTensorsIdentical(),
        ConfigAsIntended(()),
        TieStateAsIntended(description.tie.state, description.vocabulary.rows, *named_keys(description)),
        FilesCarried(),
        IndexExact(),
    )
    return Plan(operation, (), (), promises, notes=(why,))


def refuse(description: Description, operation: str) -> Refusal:
    """The refusal of `operation` in a state that gives it no meaning."""
    state = description.tie.state
    return Refusal(operation, REASONS[state], description.tie.evidence, WAYS_OUT[state])


def refuse_tied_along(description: Description, operation: str) -> Refusal | None:
    """The refusal to change a flag that shares more than the tables; None where it does not."""
    family = description.tables.family
    if family is None or not family.tied_along:
        return None
    return Refusal(
        operation,
        f"the tie flag of {family.model_type} also shares {family.tied_along}: changing it would change those",
        description.tie.evidence,
        ("keep the flag as it is: `vocabsurgeon extend` works in either state",),
    )


def refuse_scaled(description: Description) -> Refusal | None:
    """The refusal to tie equal tables whose class would scale its outputs from then on; None where it does not."""
    family = description.tables.family
    if family is None or not family.scaled_if_tied or description.tie.state not in _TWO_TABLES:
        return None
    return Refusal(
        "tie",
        f"{family.model_type} scales the head's input exactly where the flag says tied: tying changes all logits",
        description.tie.evidence,
        ("keep the two stored tables",),
        exit_code=1,
    )


_TWO_TABLES = (TieState.UNTIED, TieState.UNTIED_EQUAL)


def named_keys(description: Description) -> tuple[str | None, str | None, Family | None]:
    """What the description of the result must be told again: keys that the user had to name, and observed facts.

    The class is then not asked twice, and code that the checkpoint brings runs once.
    """
    tables = description.tables
    if tables.decided_by != "--input-key/--output-key":
        return None, None, tables.family if tables.decided_by == DECIDED_BY else None
    return tables.input.key if tables.input else None, tables.output.key if tables.output else None, None
