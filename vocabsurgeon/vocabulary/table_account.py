"""Every stored tensor with a vocabulary-sized axis: a known table, a copy that grows along, or one not understood.

Names and shapes decide; values are read only of tensors shaped like a known table, until the first difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from vocabsurgeon.checkpoint.compare import rows_equal, tables_equal
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.by_name import NEITHER
from vocabsurgeon.vocabulary.config_sizes import collides
from vocabsurgeon.vocabulary.extra_tables import COPIES, NOT_TELLING, OTHER_RULES, TELLING, ExtraName
from vocabsurgeon.vocabulary.meta_device import names_of_class
from vocabsurgeon.vocabulary.quantized import is_companion
from vocabsurgeon.vocabulary.tables import Table, Tables

COPY = "copy"
"""The role of a table that no class of transformers reads and that must grow with those it does."""
_MULTIPLES = (8, 16, 32, 64, 128, 256)
"""What vocabularies are padded to."""
_NEAR = 4
"""A table that was left behind when the others grew is short by less than a fourth."""


_LAYER = re.compile(r"(^|\.)\d+\.")


@dataclass(frozen=True)
class UnknownTable:
    """A stored tensor with an axis as long as the vocabulary whose meaning for new ids nothing tells."""

    info: TensorInfo
    axis: int
    reason: str
    """What it looks like."""

    @property
    def entries(self) -> int:
        """Its length along that axis."""
        return self.info.shape[self.axis]

    def to_dict(self) -> dict[str, Any]:
        """An entry of `tables_not_understood` in the JSON of `inspect`."""
        key, file = self.info.key, self.info.file
        return {"key": key, "file": file, "shape": list(self.info.shape), "axis": self.axis, "reason": self.reason}


@dataclass(frozen=True)
class TableAccount:
    """What lies beside the tables that the class has."""

    copies: tuple[Table, ...]
    unknown: tuple[UnknownTable, ...]


def account_tables(source: Checkpoint, tables: Tables) -> TableAccount:
    """The class of each stored tensor with a vocabulary axis that is no table in `tables`.

    Where the vocabulary's size is another number of config.json too, a name has to speak of a vocabulary. What is left
    is asked of the class (seconds, where transformers has it): its own parameters are in `tables` already.
    """
    return _Search(source, tables).account()


def short_copies(tables: Tables) -> tuple[Table, ...]:
    """The copies whose rows are not as many as the main table's: an earlier run, or another tool, left them behind."""
    return tuple(table for table in tables.others if table.role == COPY and table.rows != tables.main.rows)


@dataclass(frozen=True)
class _Search:
    source: Checkpoint
    tables: Tables

    def account(self) -> TableAccount:
        known = {table.key for table in self.tables.stored} | set(self._parts())
        copies: list[Table] = []
        left: list[UnknownTable] = []
        sizes = self._sizes | self._near
        for info in self.source.tensors.values():
            if (sizes.isdisjoint(info.shape) and not self._is_nearly_main(info)) or info.key in known:
                continue
            if copy := self._copy(info):
                copies.append(copy)
            elif unknown := self._unknown(info):
                left.append(unknown)
        return TableAccount(tuple(copies), self._not_of_class(left))

    def _parts(self) -> tuple[str, ...]:
        family = self.tables.family
        return (*family.in_parts, *family.tails) if family else ()

    @cached_property
    def _models(self) -> tuple[Table, ...]:
        """The tables that others may be copies of."""
        return tuple(table for table in self.tables.stored if table.role != "output_bias" and table.axis == 0)

    @cached_property
    def _sizes(self) -> frozenset[int]:
        """The lengths of an axis that runs over the vocabulary."""
        pair = [table for table in (self.tables.input, self.tables.output) if table]
        return frozenset(size for table in pair for size in (table.rows, table.vocabulary) if size > 1)

    @cached_property
    def _near(self) -> frozenset[int]:
        """Further lengths that it may have: what the tokenizer and the config count, and those padded."""
        tokenizer = self.source.tokenizer
        stated = self.source.config.numbers("vocab_size").values()
        counted = {*self._sizes, *stated, tokenizer.max_id + 1 if tokenizer else 0}
        padded = {-(-size // multiple) * multiple for size in counted for multiple in _MULTIPLES}
        rows = self.tables.main.rows
        return frozenset(size for size in counted | padded if rows <= 2 * size <= 4 * rows) - self._sizes

    @cached_property
    def _colliding(self) -> frozenset[int]:
        return frozenset(size for size in self._sizes if collides(self.source.config, self.tables.family, size))

    def _copy(self, info: TensorInfo) -> Table | None:
        """`info` as a table that grows along: by its name, or by its bits."""
        if info.rows in self._sizes:
            whole = len(info.shape) > 1 or info.key.endswith(".bias")
            named = whole and _named(COPIES, info.key) is not None
            return self._like_main(info) if named or self._is_equal(info) else None
        return Table(COPY, info.key, info) if self._was_left_behind(info) else None

    def _like_main(self, info: TensorInfo) -> Table:
        model = next((table for table in self._models if table.rows == info.rows), self.tables.main)
        beyond = model.beyond if model.rows == info.rows else 0
        return Table(COPY, info.key, info, 0, beyond, model.beyond_moves)

    def _is_equal(self, info: TensorInfo) -> bool:
        """Whether `info` holds the bits of a known table; tensors of zeros (I-BERT's `weight_integer`) say nothing."""
        rows = self.source.rows
        if info.dtype.numpy is None:
            return False
        alike = [table for table in self._models if (table.info.shape, table.info.dtype) == (info.shape, info.dtype)]
        equal = any(tables_equal(rows(table.key), rows(info.key)) for table in alike)
        return equal and any(block.any() for _, block in rows(info.key).blocks())

    def _was_left_behind(self, info: TensorInfo) -> bool:
        """Whether `info` is a copy with other rows than the tables: by its name, or by the rows it has."""
        main, size = self.tables.main, info.rows
        if not self._is_nearly_main(info):
            return False
        if _named(COPIES, info.key) is not None:
            return not self._has_own_ids(size)
        if size >= main.rows or not _is_telling(info.key):
            return False
        rows = self.source.rows
        models = [table for table in self._models if table.info.dtype == info.dtype]
        models = [table for table in models if table.info.shape[1:] == info.shape[1:] and table.rows > size]
        return any(rows_equal(rows(table.key), rows(info.key), 0, size) for table in models)

    def _is_nearly_main(self, info: TensorInfo) -> bool:
        rows, width = self.tables.main.info.shape
        return info.shape[1:] == (width,) and abs(rows - info.shape[0]) * _NEAR <= rows

    def _has_own_ids(self, size: int) -> bool:
        """Whether a map of ids is stored that makes `size` the vocabulary of a draft."""
        return any(info.shape == (size,) and not info.dtype.floating for info in self.source.tensors.values())

    def _unknown(self, info: TensorInfo) -> UnknownTable | None:
        axis = _axis_of(info, self._sizes) if self._sizes & {*info.shape} else _axis_of(info, self._near)
        if axis is None or is_companion(self.source.config, info.key):
            return None
        asked = self.tables.family is not None and info.shape[axis] in self._sizes
        if not self._is_plain(info, axis) and not (asked and _is_lone_vector(info)):
            return None
        rule = _named(OTHER_RULES, info.key)
        return UnknownTable(info, axis, rule.what if rule else "no class or reader known here has it")

    def _is_plain(self, info: TensorInfo, axis: int) -> bool:
        """Whether `info` counts without its class being asked: by its length alone, or by name and shape."""
        if info.shape[axis] in self._sizes - self._colliding:
            return True
        named = _named(OTHER_RULES, info.key) is not None or _is_telling(info.key)
        return named and self._is_shaped(info, axis)

    def _is_shaped(self, info: TensorInfo, axis: int) -> bool:
        """Whether `info` is a vector over the axis, or as wide as a table."""
        rest = [size for number, size in enumerate(info.shape) if number != axis and size > 1]
        return not rest or (len(rest) == 1 and rest[0] in {table.info.shape[-1] for table in self._models})

    def _not_of_class(self, left: Iterable[UnknownTable]) -> tuple[UnknownTable, ...]:
        left = tuple(left)
        if not left or self.tables.family is None:
            return left
        own = names_of_class(self.source, [table.info.key for table in left])
        if own is None:
            return tuple(table for table in left if self._is_plain(table.info, table.axis))
        return tuple(table for table in left if table.info.key not in own)


def _named(names: Iterable[ExtraName], key: str) -> ExtraName | None:
    return next((name for name in names if name.fits(key)), None)


def _axis_of(info: TensorInfo, sizes: frozenset[int]) -> int | None:
    return next((axis for axis, size in enumerate(info.shape) if size in sizes), None)


def _is_lone_vector(info: TensorInfo) -> bool:
    """Whether `info` is a vector of no layer and no norm: of those a class has few, and they can be asked for."""
    return prod(info.shape) == max(info.shape) and not _LAYER.search(info.key) and not NOT_TELLING.search(info.key)


def _is_telling(key: str) -> bool:
    """Whether the last words of `key` speak of a vocabulary, and nothing in it of something else."""
    module = ".".join(key.split(".")[-3:])
    return bool(TELLING.search(module)) and not NOT_TELLING.search(module) and not NEITHER.search(key)
