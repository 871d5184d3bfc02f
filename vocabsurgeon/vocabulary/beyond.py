"""Rows at the end of a table that are no vocabulary: image tokens, prompt vectors, durations. Sizes only."""

from __future__ import annotations

from dataclasses import dataclass

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.vocabulary.families import Family


@dataclass(frozen=True)
class Beyond:
    """How many rows input embedding and LM head have beyond the vocabulary's size."""

    input: int = 0
    output: int = 0
    moves: bool = False
    """Whether the model counts them from the size on, so that they move when it grows; else their numbers are fixed."""


def rows_beyond(family: Family | None, config: Config, input_rows: int | None, output_rows: int | None) -> Beyond:
    """What the class has by default, taken from the tables' own rows; nothing where the config's size disagrees."""
    if family is None or not any(family.rows_beyond):
        return Beyond()
    stated = {size for key in family.size_keys for size in config.numbers(key).values()}
    rows = [count for count in (input_rows, output_rows) if count is not None]
    if len(rows) > 1 and family.rows_beyond[0] != family.rows_beyond[1]:
        size = min(rows)
    else:
        defaults = family.rows_beyond[0 if input_rows is not None else 1]
        size = max((count for count in stated if count <= rows[0]), default=rows[0] - defaults)
    if size <= 0 or (stated and size not in stated):
        return Beyond()
    over = [0 if count is None else count - size for count in (input_rows, output_rows)]
    return Beyond(over[0], over[1], family.beyond_moves)
