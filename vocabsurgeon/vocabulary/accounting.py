"""Ids of the tokenizer against rows of the table: spare rows, ids without a row, holes. Pure arithmetic on data."""

from __future__ import annotations

from dataclasses import dataclass

from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles


@dataclass(frozen=True)
class Accounting:
    """Rows and ids. The id figures are None where the checkpoint has no tokenizer to count."""

    rows: int
    ids: int | None
    max_id: int | None
    spare_rows: int | None
    ids_without_row: tuple[int, ...] | None
    id_holes: tuple[int, ...] | None
    tokenizer_sha256: str | None


def account(rows: int, tokenizer: TokenizerFiles | None, beyond: int = 0) -> Accounting:
    """How `rows` rows and the tokenizer's ids fit together; the ids of `beyond` rows behind them have a row too."""
    if tokenizer is None:
        return Accounting(rows, None, None, None, None, None, None)
    top = tokenizer.max_id
    without = tuple(number for start, stop in tokenizer.ranges for number in range(max(start, rows + beyond), stop))
    return Accounting(rows, tokenizer.count, top, max(0, rows - top - 1), without, tokenizer.holes, tokenizer.sha256)
