"""How a new token's row comes from old rows: strategy name → function giving a row expression. Evaluates nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, Normal, RowExpression, Zeros
from vocabsurgeon.errors import UsageError


@dataclass(frozen=True)
class RowContext:
    """What a strategy may use: which rows have ids, and the numbers of `normal`."""

    rows_with_ids: tuple[tuple[int, int], ...]
    """Half-open ranges."""
    std: float
    seed: int


RowInit = Callable[[tuple[int, ...], RowContext], RowExpression]
"""(ids of the pieces that have rows, context) → expression."""


def subword_mean(pieces: tuple[int, ...], context: RowContext) -> RowExpression:
    """The mean of the pieces' rows, as in FVT (Gee et al. 2022); of all rows with ids where no piece is left."""
    return MeanOf(pieces, context.rows_with_ids)


def mean(pieces: tuple[int, ...], context: RowContext) -> RowExpression:
    """The mean of all rows that have ids."""
    return MeanOf((), context.rows_with_ids)


def zeros(pieces: tuple[int, ...], context: RowContext) -> RowExpression:
    """All zero."""
    return Zeros()


def normal(pieces: tuple[int, ...], context: RowContext) -> RowExpression:
    """N(0, initializer_range), reproducible from the seed and the row's number."""
    return Normal(context.seed, context.std)


ROW_INITS: dict[str, RowInit] = {"subword-mean": subword_mean, "mean": mean, "zeros": zeros, "normal": normal}
COPY = "copy:"


def row_init(name: str, token_to_id: Callable[[str], int | None], rows: int) -> RowInit:
    """The strategy called `name`; `copy:TOKEN` copies the row of TOKEN.

    Raises `UsageError` for an unknown name, and for a TOKEN that the tokenizer does not know or that has no row.
    """
    check_init(name)
    if name in ROW_INITS:
        return ROW_INITS[name]
    token = name.removeprefix(COPY)
    number = token_to_id(token)
    if number is None:
        raise UsageError(
            f"the tokenizer does not know {token!r}", where=f"--init {name}", hint="name an existing token"
        )
    if number >= rows:
        raise UsageError(f"{token!r} has id {number} but no row", where=f"--init {name}", hint="name another token")
    return lambda pieces, context: CopyOf(number)


def check_init(name: str) -> None:
    """Raises `UsageError` unless `name` is a strategy, or `copy:` with some token: for a run that writes no row."""
    if name not in ROW_INITS and not name.startswith(COPY):
        raise UsageError(f"unknown row initializer {name!r}", hint=f"one of {', '.join(ROW_INITS)}, {COPY}TOKEN")


def for_vector(expression: RowExpression, context: RowContext) -> RowExpression:
    """The same for a bias entry: there noise makes no sense, so `normal` gives the mean."""
    return MeanOf((), context.rows_with_ids) if isinstance(expression, Normal) else expression
