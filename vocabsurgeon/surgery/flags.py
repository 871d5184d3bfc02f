"""What tie and untie share: the plan that changes the tie state alone, the one that changes nothing, the refusal."""

from __future__ import annotations

from vocabsurgeon.checkpoint.account import account, older_copies
from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.edits import CopyTensor, DropTensor, FileEdit, TensorEdit
from vocabsurgeon.surgery.config_edits import Values, config_edit, scale_values
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
from vocabsurgeon.vocabulary.table_account import COPY
from vocabsurgeon.vocabulary.tie_state import TieState
from vocabsurgeon.vocabulary.weight_files import format_notes


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
    omitted = older_copies(source, weights_change=bool(tensor_edits)) if tensor_edits or config_edits else ()
    usual = (
        UntouchedTensorsIdentical(
            edited=tuple(edit.key for edit in tensor_edits if not isinstance(edit, CopyTensor | DropTensor)),
            added=tuple(edit.key for edit in tensor_edits if isinstance(edit, CopyTensor)),
            dropped=tuple(edit.key for edit in tensor_edits if isinstance(edit, DropTensor)),
        ),
        ConfigAsIntended(tuple(values.items())),
        TieStateAsIntended(state, description.vocabulary.rows, *named_keys(description)),
        FilesCarried((CONFIG,) if config_edits else (), tuple(edit.name for edit in omitted)),
        IndexExact(as_source=True),
    )
    edits: tuple[FileEdit, ...] = (*config_edits, *omitted)
    notes = (*(format_notes(source) if tensor_edits else ()), *_copies_kept(description))
    files = account(source, tensor_edits, edits)
    return Plan(operation, tensor_edits, edits, (*promises, *usual), notes=notes, files=files)


def _copies_kept(description: Description) -> tuple[str, ...]:
    """What the user should know of tables beside those of the class: no flag shares or separates them."""
    copies = [table.key for table in description.tables.others if table.role == COPY]
    return (f"tables of no class stay as they are stored: {', '.join(copies)}",) if copies else ()


def no_change(description: Description, operation: str, why: str) -> Plan:
    """The plan that copies everything; its promises say that nothing else happened."""
    promises = (
        UntouchedTensorsIdentical(),
        ConfigAsIntended(()),
        TieStateAsIntended(description.tie.state, description.vocabulary.rows, *named_keys(description)),
        FilesCarried(),
        IndexExact(as_source=True),
    )
    return Plan(operation, (), (), promises, notes=(why,), files=account(description.source))


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
