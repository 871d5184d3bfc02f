"""Declared, stored, effective: which tie state a checkpoint is in, and what says so.

Pure, but for the comparison of two stored tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.config import CONFIG, TIE_FLAG, Path, dotted, level_name
from vocabsurgeon.checkpoint.distance import Distance, distance
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.comparison import Comparison, compared
from vocabsurgeon.vocabulary.families import Family
from vocabsurgeon.vocabulary.quantized import QuantizedTable
from vocabsurgeon.vocabulary.readers import readings_of
from vocabsurgeon.vocabulary.tables import Tables
from vocabsurgeon.vocabulary.wrapped_names import evidence, hidden


class TieState(StrEnum):
    """The states of the contract; see docs/states.md."""

    TIED = "tied"
    TIED_DUPLICATE = "tied-duplicate"
    UNTIED = "untied"
    UNTIED_EQUAL = "untied-equal"
    CONFLICT = "conflict"
    HEADLESS = "headless"
    NO_HEAD = "no-head"
    INPUT_MISSING = "input-missing"
    ROW_MISMATCH = "row-mismatch"


EFFECTIVE: dict[TieState, str | None] = {
    TieState.TIED: "shared",
    TieState.TIED_DUPLICATE: "shared",
    TieState.UNTIED: "separate",
    TieState.UNTIED_EQUAL: "separate",
    TieState.CONFLICT: "version-dependent",
    TieState.HEADLESS: "random-head",
    TieState.NO_HEAD: None,
    TieState.INPUT_MISSING: None,
    TieState.ROW_MISMATCH: None,
}
"""What a reader ends up with after loading."""


@dataclass(frozen=True)
class Tie:
    """The verdict. None means not measured or without meaning, never a guess."""

    state: TieState
    declared: bool | None
    effective: str | None
    values_equal: bool | None
    comparison: Comparison | None
    duplicate_bytes: int
    evidence: tuple[str, ...]
    others_apart: tuple[str, ...] = ()
    """Further stored tables of the head's group that hold something else than the input side's."""

    @property
    def distance(self) -> Distance | None:
        """How far apart two different stored tables are."""
        return self.comparison.distance if self.comparison else None


@dataclass(frozen=True)
class Declared:
    """What the config says about tying; `stated` is None where `value` is the default of the class."""

    value: bool
    stated: bool | None
    evidence: tuple[str, ...]


def tie_of(
    source: Checkpoint, tables: Tables, *, compare: bool = False, quantized: Sequence[QuantizedTable] = ()
) -> Tie:
    """The tie state of `source`.

    Two stored tables are read until their first difference; with `compare`, to the end, for the distance. A
    `quantized` table counts as stored, and is not compared. What a reader ends up with is None where it finds no table
    by the stored name.
    """
    tie = _verdict(source, tables, compare, quantized)
    if not tables.training:
        return tie
    effective = None if hidden(tables) else tie.effective
    return replace(tie, effective=effective, evidence=(*tie.evidence, *evidence(tables)))


def _verdict(source: Checkpoint, tables: Tables, compare: bool, quantized: Sequence[QuantizedTable]) -> Tie:
    """The tie state by what is stored, and by what readers do who find it."""
    declared = declared_tie(source, tables.family)
    if not tables.has_head:
        none = (f"{tables.architecture or 'the architecture'} has no LM head",)
        return Tie(TieState.NO_HEAD, None, EFFECTIVE[TieState.NO_HEAD], None, None, 0, none)
    equal = None if quantized else _equal(source, tables)
    others = () if quantized else _others_apart(source, tables)
    apart = _apart(source, tables) if compare and equal is False else None
    tied = _counts_as_tied(declared.value, tables, equal)
    state = _state_of_quantized(tables, tied, quantized) if quantized else _state(tables, tied, equal, others)
    duplicate = tables.output.info.nbytes if state is TieState.TIED_DUPLICATE and tables.output else 0
    readings = () if quantized or hidden(tables) else map(str, readings_of(state, source.config.model_type))
    evidence = (*declared.evidence, *_stored(tables, quantized), *_measured(state, equal, apart), *readings)
    told = (*_told_of(tables, state, others), *_mismatch(tables, state))
    return Tie(state, tied, EFFECTIVE[state], equal, apart, duplicate, (*evidence, *told), others)


def declared_tie(source: Checkpoint, family: Family | None) -> Declared:
    """What the file declares: stated at a level that the class obeys, else the class's default.

    Where the class ties or does not whatever the file says, the root's flag is what the file declares, and the evidence
    tells of the class.
    """
    lines = [
        f"{CONFIG}: {dotted((*path, TIE_FLAG))} is {str(value).lower()}"
        for path, value in source.config.flags().items()
    ]
    renamed = _other_names(source, family)
    lines += [f"{CONFIG}: {key} is {str(value).lower()}, which counts" for key, value in renamed.items()]
    stated = dict(source.config.flags())
    for value in renamed.values():
        stated[()] = value
    heard = _heard(stated, family)
    default = True if family is None else family.tie_default
    value = default if not heard else family.declares(stated) if family and family.tie_forced is None else heard[()]
    if not heard:
        whose = f"{family.model_type}'s default" if family else "transformers' default"
        lines.append(f"{CONFIG}: {TIE_FLAG} is absent; {whose} is {str(default).lower()}")
    elif family and len(set(stated.values())) > 1:
        lines.append(
            f"{family.model_type} obeys {' and '.join(level_name(path) for path in heard)}: {str(value).lower()}"
        )
    if family is not None and family.tie_forced is not None:
        does = "shares the tables" if family.tie_forced else "keeps the tables apart"
        lines.append(f"{family.model_type}: the class {does}, whatever {TIE_FLAG} says")
    return Declared(value, value if heard else None, tuple(lines))


def _other_names(source: Checkpoint, family: Family | None) -> Mapping[str, bool]:
    """What the root states under another name of the flag that the class reads; the first such name overrules all."""
    named = {key: source.config.data.get(key) for key in (family.flag_keys if family else ()) if key != TIE_FLAG}
    stated = [(key, value) for key, value in named.items() if isinstance(value, bool)]
    return dict(stated[:1])


def _heard(stated: Mapping[Path, bool], family: Family | None) -> Mapping[Path, bool]:
    """The stated flags at the levels that count as the file's word."""
    if family is not None and family.tie_forced is None:
        return family.obeyed(stated)
    return {path: value for path, value in stated.items() if not path}


def _counts_as_tied(declared: bool, tables: Tables, equal: bool | None) -> bool:
    """A class that forces the flag overrules the file, except that two different stored tables stay two."""
    forced = tables.family.tie_forced if tables.family else None
    if forced and equal is False:
        return declared
    return declared if forced is None else forced


def _others_apart(source: Checkpoint, tables: Tables) -> tuple[str, ...]:
    """The stored members of the head's group, but the pair itself, whose bits are not the input side's."""
    first = tables.partner
    group = tables.sharing.with_head(tables.output_name)
    members = [table for table in tables.others if table.key in group and table is not first]
    if tables.input is not None and first is not None and tables.input is not first and tables.input.key in group:
        members.append(tables.input)
    return tuple(
        table.key for table in members if first and not tables_equal(source.rows(first.key), source.rows(table.key))
    )


def _told_of(tables: Tables, state: TieState, others: tuple[str, ...]) -> Sequence[str]:
    """What further tables add to the verdict."""
    lines = [f"{key} differs from {tables.partner.key if tables.partner else 'the rest'}" for key in others]
    if state in (TieState.UNTIED, TieState.UNTIED_EQUAL):
        lines += [
            f"{key} is not stored: it is random at every load while the flag says untied" for key in tables.missing
        ]
    return lines


def _mismatch(tables: Tables, state: TieState) -> Sequence[str]:
    if state is not TieState.ROW_MISMATCH:
        return ()
    head = tables.output or tables.partner
    rows = head.vocabulary if head else 0
    found = [f"{table.key} has {table.vocabulary}, not {rows}" for table in tables.mismatched]
    return [f"the tables have different numbers of rows: {', '.join(found)}"]


def _state(tables: Tables, declared: bool, equal: bool | None, others: tuple[str, ...]) -> TieState:
    if tables.mismatched:
        return TieState.ROW_MISMATCH
    forced = tables.family is not None and tables.family.tie_forced
    if declared and others and not forced:
        return TieState.CONFLICT
    if tables.partner and tables.output:
        if equal:
            return TieState.TIED_DUPLICATE if declared else TieState.UNTIED_EQUAL
        return TieState.CONFLICT if declared else TieState.UNTIED
    if declared:
        return TieState.TIED
    return TieState.HEADLESS if tables.partner else TieState.INPUT_MISSING


def _state_of_quantized(tables: Tables, declared: bool, quantized: Sequence[QuantizedTable]) -> TieState:
    """The state by what is stored, plain or quantized: two stored tables of which one is quantized are two tables."""
    roles = {table.role for table in quantized} | {table.role for table in (tables.input, tables.output) if table}
    if {"input", "output"} <= roles:
        return TieState.CONFLICT if declared else TieState.UNTIED
    if declared:
        return TieState.TIED
    return TieState.HEADLESS if "input" in roles else TieState.INPUT_MISSING


def _equal(source: Checkpoint, tables: Tables) -> bool | None:
    if tables.partner is None or tables.output is None:
        return None
    return tables_equal(source.rows(tables.partner.key), source.rows(tables.output.key))


def _apart(source: Checkpoint, tables: Tables) -> Comparison | None:
    if tables.partner is None or tables.output is None:
        return None
    if tables.partner.info.shape != tables.output.info.shape:
        return None
    return compared(distance(source.rows(tables.partner.key), source.rows(tables.output.key)), source.tokenizer)


def _stored(tables: Tables, quantized: Sequence[QuantizedTable]) -> Sequence[str]:
    found = [(table.role, table) for table in (tables.input, tables.output) if table]
    lines = [
        f"{table.info.file}: {table.key} {list(table.info.shape)} {table.info.dtype.name} is the {role} table"
        for role, table in found
    ]
    packed = {table.role for table in quantized}
    lines += [f"{table.key}: the {table.role} table is stored quantized ({table.scheme})" for table in quantized]
    if tables.input is None and "input" not in packed:
        lines.append("no input embedding is stored under any known name")
    if tables.output is None and "output" not in packed:
        lines.append("no LM head is stored under any known name")
    return lines


def _measured(state: TieState, equal: bool | None, apart: Comparison | None) -> Sequence[str]:
    if equal is None:
        return ()
    if state is TieState.ROW_MISMATCH:
        return ()
    if equal:
        return ("the two tables are equal bit for bit",)
    if apart is None:
        return ("the two tables differ (how far apart: not measured, see --compare)",)
    return apart.lines()
