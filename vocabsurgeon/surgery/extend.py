"""`plan_extend`: request → plan, pure but for loading the source's tokenizer. Nothing is written here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vocabsurgeon.checkpoint.account import account, older_copies
from vocabsurgeon.checkpoint.config import CONFIG, Config
from vocabsurgeon.checkpoint.edits import FileEdit, RowExpression, TensorEdit, WriteFile, WriteRows
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.config_edits import (
    Values,
    config_edit,
    other_sizes,
    scale_values,
    size_values,
    tie_flag_values,
)
from vocabsurgeon.surgery.extend_plan import ExtendPlan, RowCounts
from vocabsurgeon.surgery.extend_tables import (
    Grown,
    grown_tables,
    left_notes,
    refuse_left_behind,
    refuse_taken,
    require_keepable,
    table_edits,
)
from vocabsurgeon.surgery.flags import named_keys, refuse
from vocabsurgeon.surgery.operations import OPERATIONS, Action
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.promises import (
    ConfigAsIntended,
    FilesCarried,
    IndexExact,
    NewRowsAsPlanned,
    OldRowsIdentical,
    Promise,
    TieStateAsIntended,
    TokenizerKept,
    UntouchedTensorsIdentical,
)
from vocabsurgeon.surgery.promises.written_files import content_promises
from vocabsurgeon.surgery.quantized import refuse_quantized
from vocabsurgeon.surgery.row_init import RowContext, check_init, row_init, subword_mean
from vocabsurgeon.surgery.tokens import Assignment, TokenRefusal, TokenRequest, assign
from vocabsurgeon.surgery.tokens.declared import padding_notes, refuse_taken_ids, settled_padding
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.surgery.tokens.role_values import role_config_values
from vocabsurgeon.surgery.wrapped import refuse_wrapped
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.tie_state import TieState
from vocabsurgeon.vocabulary.weight_files import format_notes


@dataclass(frozen=True)
class ExtendRequest:
    """What the user asked for. `init` holds for every token that names no initializer of its own."""

    tokens: tuple[TokenRequest, ...] = ()
    init: str = "subword-mean"
    roles: tuple[tuple[str, str], ...] = ()
    pad_to_multiple_of: int | None = None
    seed: int = 0
    chat_template: str | None = None
    promote: bool = False
    side: str | None = None
    """`encoder` or `decoder` of a model with two vocabularies; None for all tables."""
    keep_size: tuple[str, ...] = ()
    """Stored tensors with an entry for each id that may stay as they are when the vocabulary grows."""


def plan_extend(description: Description, request: ExtendRequest) -> ExtendPlan | Refusal:
    """The plan that gives the requested tokens ids and rows.

    Old ids keep their tokens and old rows their bits; a spare row is used before the table grows; the table never
    shrinks. Raises `UsageError` for a request that makes no sense, `TokenizerError` for files that cannot take it.
    """
    if refusal := refuse_wrapped(description, "extend"):
        return refusal
    if request.tokens and (refusal := refuse_quantized(description, "extend")):
        return refusal
    action = OPERATIONS[description.tie.state, "extend"]
    if action is Action.REFUSE:
        return refuse(description, "extend")
    source = description.source
    check_init(request.init)
    rows = max(table.rows for table in description.tables.stored)
    padding, told = settled_padding(source, rows) if request.tokens or request.roles else ({}, ())
    roles = {**padding, **dict(request.roles)}
    assigned = assign(source, source.tokenizer, request.tokens, roles=roles, promote=request.promote)
    if isinstance(assigned, TokenRefusal):
        return Refusal("extend", assigned.reason, assigned.evidence, (assigned.hint,) if assigned.hint else ())
    assigned = replace(assigned, notes=(*assigned.notes, *told))
    grown = grown_tables(description, request.side)
    if isinstance(grown, Refusal):
        return grown
    require_keepable(description, grown, request.keep_size)
    counts = count_rows(grown.before, assigned, request.pad_to_multiple_of)
    if refusal := refuse_taken(grown, counts) or refuse_left_behind(description, grown, counts, request.keep_size):
        return refusal
    if counts.changed and (refusal := refuse_quantized(description, "extend") or _unwritable(grown)):
        return refusal
    if description.tables.missing and description.tie.state in _APART:
        return _untie_first(description)
    unknown = description.tables.family is None and counts.after > counts.before
    if unknown and (sizes := other_sizes(source.config, counts.before)):
        return _no_known_size(sizes)
    if taken := refuse_taken_ids(source, assigned.tokens, assigned.roles, max(rows, counts.after)):
        return taken
    context = _context(description, grown, request)
    edits = table_edits(grown, _row_expressions(assigned, request, counts, context), context, counts)
    values = _config_values(description, grown, assigned, counts, action)
    return _plan(description, request, assigned, grown, counts, edits, values)


_APART = (TieState.UNTIED, TieState.UNTIED_EQUAL, TieState.CONFLICT)


def _untie_first(description: Description) -> Refusal:
    missing = ", ".join(description.tables.missing)
    return Refusal(
        "extend",
        f"the files hold two tables, but not {missing}: random at every load where the flag says untied",
        description.tie.evidence,
        ("`vocabsurgeon untie` first: it stores every table and declares them untied",),
    )


def _no_known_size(sizes: Sequence[str]) -> Refusal:
    return Refusal(
        "extend",
        f"{CONFIG} does not state the size of an unknown type under a known name ({', '.join(sizes)} may be it)",
        ways_out=("state vocab_size in config.json, if that is what the class reads",),
    )


def _unwritable(grown: Grown) -> Refusal | None:
    for table in grown.tables:
        if table.role in ("other", "copy") and table.info.dtype.numpy is not None:
            continue
        if not table.info.dtype.floating or table.info.dtype.is_scale or table.info.dtype.numpy is None:
            return Refusal(
                "extend",
                f"{table.key} is stored as {table.info.dtype.name}: rows of a quantized table cannot be added",
                ways_out=("extend the checkpoint it was quantized from",),
            )
    return None


def count_rows(before: int, assigned: Assignment, multiple: int | None) -> RowCounts:
    """rows = max(old rows, highest requested id + 1), then padding; and what each written row is for."""
    if multiple is not None and not 1 <= multiple <= MOST_PADDING:
        hint = f"give 1 to {MOST_PADDING}"
        raise UsageError(f"cannot pad to a multiple of {multiple}", where="--pad-to-multiple-of", hint=hint)
    needed = max([before, *(token.id + 1 for token in assigned.tokens)])
    after = -(-needed // multiple) * multiple if multiple else needed
    own = {token.id for token in assigned.tokens if token.is_new}
    ranges = assigned.files.ranges if assigned.files else ()
    known = {number for start, stop in ranges for number in range(max(start, before), min(stop, after))}
    padding = tuple(number for number in range(before, after) if number not in own | known)
    return RowCounts(before, after, tuple(sorted(own)), tuple(sorted(known - own)), padding)


MOST_PADDING = 1 << 16
"""Rows are padded to suit hardware, in tens to thousands; more is a slip of the keyboard that fills the disk."""


def _context(description: Description, grown: Grown, request: ExtendRequest) -> RowContext:
    source, rows = description.source, grown.before
    ranges = source.tokenizer.ranges if source.tokenizer else ()
    with_ids = tuple((start, min(stop, rows)) for start, stop in ranges if start < rows) or ((0, rows),)
    return RowContext(with_ids, _initializer_range(source.config), request.seed)


def _initializer_range(config: Config) -> float:
    """The outermost level's standard deviation of fresh weights; 0.02 (transformers' usual) where none is sensible."""
    stated = (level.get("initializer_range") for level in config.levels.values())
    usable = (float(std) for std in stated if isinstance(std, int | float) and 0 < std < math.inf)
    return next(usable, 0.02)


def _row_expressions(
    assigned: Assignment, request: ExtendRequest, counts: RowCounts, context: RowContext
) -> Mapping[int, RowExpression]:
    """Row number → what to write there: padding, ids that had no row, and the new tokens."""

    def expression(init: str | None, pieces: Sequence[int]) -> RowExpression:
        known = tuple(piece for piece in pieces if piece < counts.before)
        return row_init(init or request.init, token_to_id.get, counts.before)(known, context)

    token_to_id: Mapping[str, int] = assigned.files.token_to_id if assigned.files else {}
    return {
        **dict.fromkeys(counts.padding, subword_mean((), context)),
        **{number: expression(None, assigned.pieces_of(number)) for number in counts.filled},
        **{token.id: expression(token.request.init, token.pieces) for token in assigned.tokens if token.is_new},
    }


def _config_values(
    description: Description, grown: Grown, assigned: Assignment, counts: RowCounts, action: Action
) -> Values:
    config = description.source.config
    sizes = (
        size_values(config, description.tables.family, grown.size_keys, counts.before, counts.after)
        if counts.changed
        else {}
    )
    flags = tie_flag_values(config, description.tables.family, False) if action is Action.GROW_AND_UNTIE_FLAGS else {}
    values = {**sizes, **flags, **role_config_values(config, assigned)}
    return {**scale_values(config), **values} if values or counts.changed else {}


def _plan(
    description: Description,
    request: ExtendRequest,
    assigned: Assignment,
    grown: Grown,
    counts: RowCounts,
    edits: tuple[TensorEdit, ...],
    values: Values,
) -> ExtendPlan:
    source = description.source
    written = tokenizer_edits(source, assigned, chat_template=request.chat_template)
    written = (*config_edit(source.config, values), *written)
    omitted = older_copies(source, weights_change=bool(edits)) if edits or written else ()
    files: tuple[FileEdit, ...] = (*written, *omitted)
    return ExtendPlan(
        "extend",
        edits,
        files,
        (
            *_table_promises(edits),
            UntouchedTensorsIdentical(edited=tuple(edit.key for edit in edits if isinstance(edit, WriteRows))),
            ConfigAsIntended(tuple(values.items())),
            TieStateAsIntended(
                _state_after(description), _rows_after(description, grown, counts), *named_keys(description)
            ),
            TokenizerKept(assigned.tokens, assigned.baseline),
            *content_promises(written),
            FilesCarried(tuple(edit.name for edit in written), tuple(edit.name for edit in omitted)),
            IndexExact(as_source=True),
        ),
        tokens=assigned.tokens,
        counts=counts,
        default_init=request.init,
        files=account(source, edits, files),
        notes=(
            *_notes(description, grown, counts, edits, written),
            *left_notes(description, counts, request.keep_size),
            *padding_notes(source, counts.padding),
            *assigned.notes,
            *(format_notes(source) if edits else ()),
        ),
    )


def _table_promises(edits: tuple[TensorEdit, ...]) -> tuple[Promise, ...]:
    rows = [edit for edit in edits if isinstance(edit, WriteRows)]
    kept = [OldRowsIdentical(edit.key, edit.axis, edit.size, tuple(row for row, _ in edit.rows)) for edit in rows]
    return (*kept, *(NewRowsAsPlanned(edit.key, edit.axis, edit.rows) for edit in rows))


def _state_after(description: Description) -> TieState:
    """A conflict is settled as the files say, even where no row is written; every other state stays."""
    state = description.tie.state
    return TieState.UNTIED if state is TieState.CONFLICT else state


def _rows_after(description: Description, grown: Grown, counts: RowCounts) -> int:
    return counts.after if description.tables.main in grown.tables else description.vocabulary.rows


def _notes(
    description: Description,
    grown: Grown,
    counts: RowCounts,
    edits: tuple[TensorEdit, ...],
    written: tuple[WriteFile, ...],
) -> tuple[str, ...]:
    notes = []
    if not edits and not written:
        notes.append("nothing to change: every requested token exists")
    if description.tie.state is TieState.CONFLICT:
        grew = "both grew, and the flags now say untied" if edits else "the flags now say untied"
        apart = next((line for line in description.tie.evidence if line.startswith("the two tables differ")), "")
        notes.append(
            f"{CONFIG} said tied, the files hold two different tables: {grew}" + (f"; {apart}" if apart else "")
        )
    if counts.filled:
        notes.append(f"{len(counts.filled)} ids that the tokenizer already had without a row got one")
    for table in description.tables.stored if edits else ():
        if table not in grown.tables:
            notes.append(f"{table.key} has {table.rows} entries, not {counts.before}: it was left as it is")
        elif table.beyond:
            where = "moved behind the new rows" if table.beyond_moves else "kept their places"
            notes.append(f"{table.key}: {table.beyond} rows beyond the vocabulary {where}")
    return tuple(notes)
