"""Which tables `extend` grows, and the edit of each. Pure; rows stay symbolic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, RowExpression, TensorEdit, WriteRows
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.extend_plan import RowCounts
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.row_init import RowContext, for_vector, subword_mean
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.table_account import UnknownTable, short_copies
from vocabsurgeon.vocabulary.tables import Table, Tables

SIDES = ("encoder", "decoder", "both")


@dataclass(frozen=True)
class Grown:
    """The tables that grow, their rows before, and the names of the config values that state their size."""

    tables: tuple[Table, ...]
    before: int
    size_keys: tuple[str, ...]
    spare: bool = True
    """Whether a row without an id in the tokenizer is free to take."""


def grown_tables(description: Description, side: str | None) -> Grown | Refusal:
    """The tables of `side`; without one, all of the model's one vocabulary.

    Refused where the model has two vocabularies and no side says which is meant, where it has one and a side asks for
    half of it, and where its tables are no vocabulary of tokens.
    """
    tables, family = description.tables, description.tables.family
    if family is not None and family.no_tokens:
        return Refusal("extend", f"{family.model_type} cannot be extended: {family.no_tokens}")
    if family is not None and (tails := [key for key in family.tails if key in description.source.tensors]):
        return Refusal(
            "extend",
            f"{tails[0]} holds the rows of ids from the vocabulary's size on: they would move when it grows",
            description.tie.evidence,
        )
    keys = family.size_keys if family else ("vocab_size",)
    sizes = {name: _size(tables, name) for name in ("encoder", "decoder")}
    two = None not in sizes.values() and sizes["encoder"] != sizes["decoder"]
    if side in (None, "both"):
        if two:
            return _name_a_side(side, sizes)
        same = tuple(table for table in tables.stored if table.vocabulary == tables.main.vocabulary)
        return Grown(same, tables.main.vocabulary, (*keys, "vocab_size"))
    size, separate = sizes[side], _are_separate(description) and len(keys) > 1
    if size is None or not separate:
        reason = "the model has one vocabulary: its encoder and decoder cannot grow apart"
        return Refusal("extend", reason, ways_out=("leave out --side",))
    mine = tuple(table for table in tables.stored if _side(table) == side and table.vocabulary == size)
    own = side == "encoder" or not two
    return Grown(mine, size, keys[:1] if side == "encoder" else keys[1:2], spare=own)


def refuse_taken(grown: Grown, counts: RowCounts) -> Refusal | None:
    """The refusal to write rows of a second vocabulary that the tokenizer, the first one's, says nothing about."""
    taken = [number for number in counts.tokens if number < grown.before]
    if grown.spare or not taken:
        return None
    return Refusal(
        "extend",
        f"id {taken[0]} has a row on the decoder's side, which has {grown.before}: its vocabulary may use that row",
        ways_out=(f"bring a tokenizer whose next id is {grown.before}, or extend the encoder's side",),
    )


def require_keepable(description: Description, grown: Grown, keys: Collection[str]) -> None:
    """Raises `UsageError` for a key of `--keep-size` that is not stored, or that is a table which grows."""
    for key in keys:
        if key not in description.source.tensors:
            where = description.source.root
            raise UsageError(f"no tensor {key} is stored", where=where, hint="`--keep-size` names stored tensors")
        if any(table.key == key for table in grown.tables):
            raise UsageError(f"{key} is a table of the vocabulary: it grows with it", where="--keep-size")


def refuse_left_behind(
    description: Description, grown: Grown, counts: RowCounts, keep_size: Collection[str]
) -> Refusal | None:
    """The refusal to let a tensor that has an entry for each id go without entries for new ones."""
    if not counts.changed:
        return None
    apart = [table for table in short_copies(description.tables) if table.key not in keep_size]
    short = [
        table
        for table in description.not_understood
        if table.info.key not in keep_size and _ends_before(table, description, grown, counts)
    ]
    lines = [
        *(
            f"{_shown(table)} is a copy that has {table.rows} rows, not {description.tables.main.rows}"
            for table in apart
        ),
        *(
            f"{_shown(table)} has an entry for each id and would stay short of {counts.after}: {table.reason}"
            for table in short
        ),
    ]
    if not lines:
        return None
    named: list[Table | UnknownTable] = [*apart, *short]
    keys = " ".join(f"--keep-size {table.info.key}" for table in named[:_MOST])
    ways = [f"`{keys}` leaves what you know to need no entries for new ids as it is"]
    if apart:
        ways.insert(0, "fetch the checkpoint again, or undo the edit that resized the other tables alone")
    return Refusal("extend", lines[0], tuple(lines[1:]), tuple(ways))


_MOST = 8
"""Keys that a way out spells."""


def left_notes(description: Description, counts: RowCounts, keep_size: Collection[str]) -> tuple[str, ...]:
    """What the user should know of the tensors with an entry for each id that were left as they are."""
    if not counts.changed:
        return ()
    left = description.not_understood
    kept = [table for table in left if table.info.key in keep_size]
    return (
        *(f"{table.info.key} was left at {table.entries} entries, as --keep-size says" for table in kept),
        *(f"{table.info.key}: its entries at new ids were left as they are" for table in left if table not in kept),
    )


def _ends_before(table: UnknownTable, description: Description, grown: Grown, counts: RowCounts) -> bool:
    """Whether new ids lie behind the end of `table`; one of the size of a vocabulary that stays is no matter."""
    others = [other for other in description.tables.stored if other not in grown.tables]
    if table.entries != grown.before and any(other.rows == table.entries for other in others):
        return False
    beyond = max((like.beyond for like in grown.tables if like.rows == table.entries), default=0)
    needed = max((*counts.tokens, *counts.filled, *counts.padding)) + 1
    return table.entries - beyond < needed


def _shown(table: Table | UnknownTable) -> str:
    return f"{table.info.file}: {table.info.key} {list(table.info.shape)}"


def table_edit(table: Table, rows: Mapping[int, RowExpression], context: RowContext, counts: RowCounts) -> WriteRows:
    """The rows of `rows` written into `table`, each as its kind of table needs it.

    Rows beyond the vocabulary keep their numbers, or follow the size where the model counts them from there.
    """
    size = counts.after + table.beyond
    written = {n: row for n, row in rows.items() if table.beyond_moves or n in counts.tokens or n >= table.rows}
    for number in range(table.rows, size):
        written.setdefault(number, subword_mean((), context))
    if table.beyond_moves:
        written |= {counts.after + n: CopyOf(counts.before + n) for n in range(table.beyond)}
    vector = sum(length > 1 for length in table.info.shape) <= 1
    if not table.info.dtype.floating:
        written = {number: _copied(row, context) for number, row in written.items()}
    elif vector:
        written = {number: for_vector(row, context) for number, row in written.items()}
    return WriteRows(table.key, table.axis, size, tuple(sorted(written.items())))


def table_edits(
    grown: Grown, rows: Mapping[int, RowExpression], context: RowContext, counts: RowCounts
) -> tuple[TensorEdit, ...]:
    """One edit a table; none where no row is written."""
    return tuple(table_edit(table, rows, context, counts) for table in grown.tables) if rows else ()


def _copied(row: RowExpression, context: RowContext) -> RowExpression:
    """Whole numbers (experts by token) have no mean: those of the first piece are taken."""
    if isinstance(row, CopyOf):
        return row
    first = row.ids[0] if isinstance(row, MeanOf) and row.ids else context.rows_with_ids[0][0]
    return CopyOf(first)


def _side(table: Table) -> str:
    """The side of an encoder-decoder model that reads or writes with the table."""
    return "encoder" if table.role == "input" or ".encoder." in f".{table.key}" else "decoder"


def _size(tables: Tables, side: str) -> int | None:
    """The rows of the vocabulary that the side uses; None where no table of that side is stored."""
    table = tables.input if side == "encoder" else tables.output or tables.partner
    return table.vocabulary if table else None


def _are_separate(description: Description) -> bool:
    """Whether the encoder's table is no one parameter with anything that the decoder uses."""
    tables = description.tables
    group = next((group for group in description.sharing if tables.main.key in group), ())
    return not any(key == tables.output_name or ".decoder." in f".{key}" for key in group)


def _name_a_side(side: str | None, sizes: Mapping[str, int | None]) -> Refusal:
    told = f"two vocabularies: {sizes['encoder']} rows on the encoder's side, {sizes['decoder']} on the decoder's"
    why = f"{told}: a new id of one may be an old one of the other" if side else told
    return Refusal("extend", f"the model has {why}", ways_out=("name one: `--side encoder` or `--side decoder`",))
