"""`describe`: everything `inspect` tells about a checkpoint, as one value. Reads headers and JSON; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.accounting import Accounting, account
from vocabsurgeon.vocabulary.families import Family
from vocabsurgeon.vocabulary.quantized import QuantizedTable, quantized_tables
from vocabsurgeon.vocabulary.sharing import Groups
from vocabsurgeon.vocabulary.table_account import UnknownTable, account_tables
from vocabsurgeon.vocabulary.tables import Tables, find_tables
from vocabsurgeon.vocabulary.tie_state import Tie, TieState, tie_of

_SHARED = (TieState.TIED, TieState.TIED_DUPLICATE)


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
    quantized: tuple[QuantizedTable, ...] = ()
    """The tables that are stored quantized: no operation touches those."""
    not_understood: tuple[UnknownTable, ...] = ()
    """Stored tensors with a vocabulary axis that are no table, copy or bias: what a new id means there is unknown."""

    @property
    def sharing(self) -> Groups:
        """The groups of keys, stored or not, that are one parameter after loading."""
        state, stored, tie = self.tie.state, self.source.tensors, self.tie
        tied = self.source.config.flags().get((), True) if state is TieState.NO_HEAD else state in _SHARED
        apart = {*tie.others_apart, *([self.tables.output_name] if tie.values_equal is False else [])}
        groups = (tuple(key for key in group if key not in apart) for group in self.tables.sharing.groups(bool(tied)))
        return tuple(group for group in groups if len(group) > 1 and any(key in stored for key in group))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `inspect`, schema `vocabsurgeon.inspect/1`."""
        return {
            "schema": "vocabsurgeon.inspect/1",
            "model_type": self.source.config.model_type,
            "architecture": self.tables.architecture,
            "tables": [_table(table) for table in self.tables.stored],
            "tables_not_understood": [table.to_dict() for table in self.not_understood],
            "tables_found_by": self.tables.decided_by,
            "tables_evidence": list(self.tables.evidence),
            "sharing": [list(group) for group in self.sharing],
            "quantized": [table.to_dict() for table in self.quantized],
            "tie": tie_json(self.tie),
            "vocabulary": _vocabulary(self.vocabulary),
            "bytes": vars(self.bytes).copy(),
        }


def describe(
    source: Checkpoint,
    *,
    compare: bool = False,
    input_key: str | None = None,
    output_key: str | None = None,
    trust_remote_code: bool = False,
    observed: Family | None = None,
) -> Description:
    """Find the tables, the tie state and the id/row accounting of `source`.

    Values are read only to compare two stored tables: until the first difference, or to the end with `compare`.
    Code that the checkpoint brings runs with `trust_remote_code` alone, and where no table of ours knows its type;
    `observed` is what was seen of the same class before. Raises `CheckpointError` where no table is found,
    `UsageError` for a key that is not stored.
    """
    tables = find_tables(source, input_key, output_key, trust_remote_code, observed)
    beside = account_tables(source, tables)
    tables = replace(tables, others=(*tables.others, *beside.copies))
    quantized = quantized_tables(source, tables)
    pair = [table for table in quantized if table.role != "other"]
    tie = tie_of(source, tables, compare=compare, quantized=pair)
    vocabulary = account(tables.main.vocabulary, source.tokenizer, tables.fixed_beyond)
    return Description(
        source, tables, tie, vocabulary, _bytes(source, tables, tie, bool(pair)), quantized, beside.unknown
    )


def _bytes(source: Checkpoint, tables: Tables, tie: Tie, quantized: bool) -> Bytes:
    """Nothing is saved or added where a table is quantized: tying and untying are refused there."""
    both = tables.partner is not None and tables.output is not None and not quantized
    saved = tables.output.info.nbytes if both and tables.output and tie.state is not TieState.ROW_MISMATCH else 0
    alone = tie.state in (TieState.TIED, TieState.HEADLESS) and not quantized
    added = tables.main.info.nbytes if alone else 0
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
        "comparison": tie.comparison.to_dict() if tie.comparison else None,
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
