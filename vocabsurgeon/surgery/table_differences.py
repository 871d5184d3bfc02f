"""What differs between the vocabulary tables of two checkpoints, by what became of each: kept, cut, replaced, lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.tables import Table
from vocabsurgeon.vocabulary.tie_state import TieState

SHOWN = 8
"""How many of a kind are named one by one."""
_MOST = 0.5
"""A table of which more than this share of the rows changed was replaced."""


def table_differences(before: Description, after: Description) -> Iterator[str]:
    """A line for each fault or change of a vocabulary table; empty where all are kept."""
    yield from _heads(before, after)
    tokens = {number: token for token, number in _ids(before).items()}
    for table in before.tables.stored:
        if table.key in after.source.tensors:
            yield from _rows(table, before, after, tokens)
        elif table.role == "output_bias":
            yield f"output bias lost: {table.key}{_held(before, table)}"


def listed(what: str, names: Sequence[str]) -> Iterator[str]:
    """One line that names the first of `names`; none where there is nothing to name."""
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"{what}: {', '.join(names[:SHOWN])}{more}"


def _heads(before: Description, after: Description) -> Iterator[str]:
    """A head that one of the two stores and the other does not."""
    old, new = before.tables.output, after.tables.output
    if old and not new:
        was = "a copy of the input embedding" if before.tie.values_equal else "a table of its own"
        becomes = {
            TieState.TIED: "the input embedding takes its place",
            TieState.HEADLESS: "the head is random at every load",
        }
        yield f"head dropped: {old.key}, {was}; {becomes.get(after.tie.state, f'the state is {after.tie.state}')}"
    elif new and not old:
        if after.tie.values_equal:
            yield f"head new: {new.key}, a copy of the input embedding"
        elif before.tie.state is TieState.HEADLESS:
            yield f"random head stored: {new.key} is in no file of the source; what it holds was made up at a load"
        else:
            yield f"head replaced: {new.key} differs from the input embedding, which was the head"
    elif not old and before.tie.state is TieState.TIED and after.tie.state is TieState.HEADLESS:
        yield "head lost: declared untied now, and none is stored: it is random at every load"


def _rows(table: Table, before: Description, after: Description, tokens: dict[int, str]) -> Iterator[str]:
    info = after.source.tensors[table.key]
    if len(info.shape) != len(table.info.shape):
        return
    old, new = before.source.rows(table.key, table.axis), after.source.rows(table.key, table.axis)
    if new.shape[0] < old.shape[0]:
        lost = [_named(row, tokens) for row in range(new.shape[0], old.shape[0])]
        yield from listed(f"rows lost: {table.key} has {new.shape[0]} of {old.shape[0]} rows", lost)
    if old.shape[1] != new.shape[1]:
        return
    changed = _changed_rows(old, new)
    rounded = "" if info.dtype == table.info.dtype else f" (beyond rounding to {info.dtype.name})"
    if table.role == "output_bias" and changed and _zero(new) and not _zero(old):
        yield f"output bias zeroed: {table.key}{_held(before, table)}"
    elif len(changed) > _MOST * old.shape[0] and table.role in ("input", "output"):
        name = "head" if table.role == "output" else "input embedding"
        equal = ", and equals the input embedding now" if table.role == "output" and after.tie.values_equal else ""
        yield f"{name} replaced: {table.key}: {len(changed)} of {old.shape[0]} old rows differ{rounded}{equal}"
    yield from listed(f"{table.key}: old row changed{rounded}", [_named(row, tokens) for row in changed])


def _changed_rows(old: TableReader, new: TableReader) -> list[int]:
    """The rows that both have and that differ as bits, the old ones rounded to the new dtype."""
    changed: list[int] = []
    for start, block in old.blocks():
        other = new.block(start, max(start, min(start + len(block), new.shape[0])))
        kept = _as(block[: len(other)], other.dtype)
        rows = np.flatnonzero((kept.view(np.uint8) != other.view(np.uint8)).any(axis=1))
        changed += [start + int(row) for row in rows]
    return changed


def _as(block: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):  # a narrower type may not hold every value
        return np.ascontiguousarray(block if block.dtype == dtype else block.astype(dtype))


def _zero(table: TableReader) -> bool:
    return not any(block.astype(np.float32).any() for _, block in table.blocks())


def _held(description: Description, table: Table) -> str:
    """What a bias amounted to."""
    blocks = description.source.rows(table.key, table.axis).blocks()
    largest = max((float(np.abs(block.astype(np.float64)).max(initial=0.0)) for _, block in blocks), default=0.0)
    return f", up to {largest:.4g}" if largest else ", all zeros"


def _named(row: int, tokens: dict[int, str]) -> str:
    return f"{row} {tokens[row]!r}" if row in tokens else str(row)


def _ids(description: Description) -> dict[str, int]:
    tokenizer = description.source.tokenizer
    return dict(tokenizer.token_to_id) if tokenizer else {}
