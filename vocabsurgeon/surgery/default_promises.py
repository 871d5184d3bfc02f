"""What holds of any honest change, for a result that brings no promises: nothing old is lost."""

from __future__ import annotations

from vocabsurgeon.checkpoint.added_tokens import FLAGS, AddedToken
from vocabsurgeon.surgery.flags import named_keys
from vocabsurgeon.surgery.promises import (
    CopyIdentical,
    DropLossless,
    IndexExact,
    MeaningKept,
    OldRowsIdentical,
    Promise,
    TieStateAsIntended,
    TokenizerKept,
    UntouchedTensorsIdentical,
)
from vocabsurgeon.surgery.tokens import AssignedToken, TokenRequest
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.table_account import COPY
from vocabsurgeon.vocabulary.tables import Table
from vocabsurgeon.vocabulary.tie_state import TieState

EXPECTED: dict[str, tuple[TieState, ...]] = {
    "tied": (TieState.TIED, TieState.TIED_DUPLICATE),
    "untied": (TieState.UNTIED_EQUAL, TieState.UNTIED),
}
"""`--expect` → the states that count as that, the one that the operation leads to first."""

_AS_GOOD: dict[TieState, tuple[TieState, ...]] = {
    TieState.TIED: (TieState.TIED_DUPLICATE,),
    TieState.TIED_DUPLICATE: (TieState.TIED,),
    TieState.UNTIED_EQUAL: (TieState.UNTIED,),
    TieState.CONFLICT: (TieState.UNTIED,),
}
"""State → others that lose nothing of it: a copy stored or dropped, two copies grown apart, flags made true."""


def default_promises(before: Description, after: Description, expect: str | None = None) -> tuple[Promise, ...]:
    """Old ids, old rows and untouched tensors are kept, the tie state too, or it is as `expect` says.

    Rows of ids that are new may be written. An output bias has as many entries as the head has rows, a copy of a table
    as many as the main one.
    """
    tables = before.tables.stored
    return (
        *(_rows_kept(table, before, after) for table in tables if table.key in after.source.tensors),
        *(OldRowsIdentical(key, axis, rows, _new_ids(before, after)) for key, axis, rows in _resized(before, after)),
        _untouched(before, after, expect),
        *_expected(before, after, expect),
        TokenizerKept(_markers(before, after)),
        MeaningKept(),
        IndexExact(),
    )


def _rows_kept(table: Table, before: Description, after: Description) -> OldRowsIdentical:
    info = after.source.tensors[table.key]
    rows = info.shape[table.axis] if len(info.shape) > table.axis else 0
    head = before.tables.output or before.tables.main
    if table.role == "output_bias" and table.rows == head.rows:
        rows = (after.tables.output or after.tables.main).rows
    if table.role == COPY and table.rows == before.tables.main.rows:
        rows = after.tables.main.rows
    return OldRowsIdentical(table.key, table.axis, rows, _new_ids(before, after))


def _resized(before: Description, after: Description) -> tuple[tuple[str, int, int], ...]:
    """Key, axis and new length of the tensors with an entry for each id that have another number of entries now."""
    found = [(table, after.source.tensors.get(table.info.key)) for table in before.not_understood]
    return tuple(
        (table.info.key, table.axis, info.shape[table.axis])
        for table, info in found
        if info and len(info.shape) == len(table.info.shape) and info.shape[table.axis] != table.entries
    )


def _markers(before: Description, after: Description) -> tuple[AssignedToken, ...]:
    """The new added tokens that no word can hold, `<|x|>` and the like: text with one in it means something else now.

    One that begins or ends like a word is left out: it may split old words anew, which is to be found.
    """
    old, new = before.source.tokenizer, after.source.tokenizer
    if old is None or new is None:
        return ()
    return tuple(
        AssignedToken(token.content, token.id, "added", (), (), _request(token))
        for token in new.added
        if token.content not in old.token_to_id and not (token.content[:1].isalnum() or token.content[-1:].isalnum())
    )


def _request(token: AddedToken) -> TokenRequest:
    flags = {name: getattr(token, name) for name in FLAGS}
    return TokenRequest(token.content, **flags)


def _new_ids(before: Description, after: Description) -> tuple[int, ...]:
    old, new = before.source.tokenizer, after.source.tokenizer
    if old is None or new is None:
        return ()
    known = set(old.token_to_id.values())
    return tuple(sorted(set(new.token_to_id.values()) - known))


def _untouched(before: Description, after: Description, expect: str | None) -> UntouchedTensorsIdentical:
    tables = {table.key for table in before.tables.stored} | {key for key, _, _ in _resized(before, after)}
    new = set(after.source.tensors) - set(before.source.tensors)
    gone = set(before.source.tensors) - set(after.source.tensors)
    heads = {before.tables.output_name, before.tables.input_name}
    copied = expect is None and (before.tie.state, after.tie.state) == (TieState.TIED, TieState.TIED_DUPLICATE)
    dropped = expect is None and (before.tie.state, after.tie.state) == (TieState.TIED_DUPLICATE, TieState.TIED)
    return UntouchedTensorsIdentical(
        edited=tuple(sorted(tables)),
        added=tuple(sorted(new & heads)) if expect == "untied" or copied else (),
        dropped=tuple(sorted(gone & heads)) if expect == "tied" or dropped else (),
    )


def _expected(before: Description, after: Description, expect: str | None) -> tuple[Promise, ...]:
    rows, found = after.vocabulary.rows, after.tie.state
    keys = named_keys(after)
    if expect is None:
        kept = found if found in _AS_GOOD.get(before.tie.state, ()) else before.tie.state
        return (TieStateAsIntended(kept, rows, *keys),)
    state = found if found in EXPECTED[expect] else EXPECTED[expect][0]
    promises: list[Promise] = [TieStateAsIntended(state, rows, *keys)]
    names = (before.tables.input_name, before.tables.output_name)
    for key, other in (names, names[::-1]):
        if key is None or other is None:
            continue
        had, has = key in before.source.tensors, key in after.source.tensors
        if expect == "tied" and had and not has:
            promises.append(DropLossless(key, other))
        if expect == "untied" and has and not had:
            promises.append(CopyIdentical(key, other))
    return tuple(promises)
