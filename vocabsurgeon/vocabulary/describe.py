"""`describe`: everything `inspect` tells about a checkpoint, as one value. Reads headers and JSON; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.accounting import Accounting, account
from vocabsurgeon.vocabulary.tables import Tables, find_tables
from vocabsurgeon.vocabulary.tie_state import Tie, TieState, tie_of


@dataclass(frozen=True)
class Bytes:
    """Bytes of tensor data: all, the vocabulary tables', and what tying would save or untying add."""

    total: int
    tables: int
    saved_if_tied: int
    added_if_untied: int


@dataclass(frozen=True)
class Description:
    """What a checkpoint's vocabulary end is. Pure data apart from `source`, which holds no weights either."""

    source: Checkpoint
    tables: Tables
    tie: Tie
    vocabulary: Accounting
    bytes: Bytes

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `inspect`, schema `vocabsurgeon.inspect/1`."""
        return {
            "schema": "vocabsurgeon.inspect/1",
            "model_type": self.source.config.model_type,
            "architecture": self.tables.architecture,
            "tables": [_table(table) for table in self.tables.stored],
            "tables_found_by": self.tables.decided_by,
            "tie": tie_json(self.tie),
            "vocabulary": _vocabulary(self.vocabulary),
            "bytes": vars(self.bytes).copy(),
        }


def describe(
    source: Checkpoint, *, compare: bool = False, input_key: str | None = None, output_key: str | None = None
) -> Description:
    """Find the tables, the tie state and the id/row accounting of `source`.

    Values are read only to compare two stored tables: until the first difference, or to the end with `compare`.
    Raises `CheckpointError` where no table is found, `UsageError` for a key that is not stored.
    """
    tables = find_tables(source, input_key, output_key)
    tie = tie_of(source, tables, compare=compare)
    vocabulary = account(tables.main.rows, source.tokenizer)
    return Description(source, tables, tie, vocabulary, _bytes(source, tables, tie))


def _bytes(source: Checkpoint, tables: Tables, tie: Tie) -> Bytes:
    both = tables.input is not None and tables.output is not None
    saved = tables.output.info.nbytes if both and tables.output and tie.state is not TieState.ROW_MISMATCH else 0
    added = tables.main.info.nbytes if tie.state in (TieState.TIED, TieState.HEADLESS) else 0
    stored = sum(table.info.nbytes for table in tables.stored)
    return Bytes(source.shards.total_size, stored, saved, added)


def _table(table: Any) -> dict[str, Any]:
    info = table.info
    return {
        "role": table.role,
        "key": table.key,
        "file": info.file,
        "shape": list(info.shape),
        "dtype": info.dtype.name,
        "bytes": info.nbytes,
    }


def tie_json(tie: Tie) -> dict[str, Any]:
    """The `tie` object of the contract."""
    apart = tie.distance
    return {
        "state": str(tie.state),
        "declared": tie.declared,
        "effective": tie.effective,
        "values_equal": tie.values_equal,
        "max_abs_diff": 0.0 if tie.values_equal else apart.max_abs_diff if apart else None,
        "mean_cosine": apart.mean_cosine if apart else None,
        "equal_rows": apart.equal_rows if apart else None,
        "duplicate_bytes": tie.duplicate_bytes,
        "evidence": list(tie.evidence),
    }


def _vocabulary(vocabulary: Accounting) -> dict[str, Any]:
    def listed(ids: tuple[int, ...] | None) -> list[int] | None:
        return None if ids is None else list(ids)

    return {
        "rows": vocabulary.rows,
        "ids": vocabulary.ids,
        "max_id": vocabulary.max_id,
        "spare_rows": vocabulary.spare_rows,
        "ids_without_row": listed(vocabulary.ids_without_row),
        "id_holes": listed(vocabulary.id_holes),
        "tokenizer_sha256": vocabulary.tokenizer_sha256,
    }
