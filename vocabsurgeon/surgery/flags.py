"""What tie and untie share: the plan that changes the tie state alone, the one that changes nothing, the refusal."""

from __future__ import annotations

from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.edits import CopyTensor, DropTensor, TensorEdit
from vocabsurgeon.surgery.config_edits import Values, config_edit
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
    omitted = stale_files(source) if tensor_edits else ()
    config_edits = config_edit(source.config, values)
    usual = (
        UntouchedTensorsIdentical(
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


def named_keys(description: Description) -> tuple[str | None, str | None]:
    """Keys that the user had to name must be named again when the result is described."""
    tables = description.tables
    if tables.decided_by != "--input-key/--output-key":
        return None, None
    return tables.input.key if tables.input else None, tables.output.key if tables.output else None
