"""What differs between two checkpoints, in words: tensors, rows, flags, ids. Says what is, not whether it is right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vocabsurgeon.checkpoint.compare import files_equal, tables_equal
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.shards import INDEX
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.states import config_leaves
from vocabsurgeon.vocabulary.describe import Description

SHOWN = 8
"""How many of a kind are named one by one."""


def differences(before: Description, after: Description) -> tuple[str, ...]:
    """Every difference between the two, a line each; empty where they say the same."""
    return (
        *_states(before, after),
        *_tensors(before.source, after.source),
        *_rows(before, after),
        *_config(before.source, after.source),
        *_ids(before.source, after.source),
        *_files(before.source, after.source),
    )


def _states(before: Description, after: Description) -> Iterator[str]:
    if before.tie.state is not after.tie.state:
        yield f"tie state: {before.tie.state} → {after.tie.state}"
    if before.vocabulary.rows != after.vocabulary.rows:
        yield f"rows: {before.vocabulary.rows} → {after.vocabulary.rows}"


def _tensors(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    yield from _listed("tensor lost", [key for key in before.tensors if key not in after.tensors])
    yield from _listed("tensor new", [key for key in after.tensors if key not in before.tensors])
    both = [key for key in before.tensors if key in after.tensors]
    reshaped = [key for key in both if before.tensors[key].shape != after.tensors[key].shape]
    yield from (
        f"{key}: shape {list(before.tensors[key].shape)} → {list(after.tensors[key].shape)}" for key in reshaped
    )
    retyped = [key for key in both if before.tensors[key].dtype != after.tensors[key].dtype]
    yield from _listed("dtype changed", retyped)
    alike = [key for key in both if key not in reshaped and key not in retyped]
    changed = [key for key in alike if not tables_equal(before.rows(key), after.rows(key))]
    yield from _listed("values changed", changed)


def _rows(before: Description, after: Description) -> Iterator[str]:
    for table in before.tables.stored:
        info = after.source.tensors.get(table.key)
        if info is None or len(info.shape) != len(table.info.shape) or info.dtype != table.info.dtype:
            continue
        old, new = before.source.rows(table.key, table.axis), after.source.rows(table.key, table.axis)
        if old.shape[1] == new.shape[1]:
            yield from _listed(f"{table.key}: old row changed", _changed_rows(old, new))


def _changed_rows(old: TableReader, new: TableReader) -> list[str]:
    changed: list[str] = []
    for start, block in old.blocks():
        other = new.block(start, max(start, min(start + len(block), new.shape[0])))
        rows = np.flatnonzero((block[: len(other)].view(np.uint8) != other.view(np.uint8)).any(axis=1))
        changed += [str(start + int(row)) for row in rows]
    return changed


def _config(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    old, new = config_leaves(before.config), config_leaves(after.config)
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path) and path != ("transformers_version",):
            yield f"config.json: {'.'.join(path)}: {_told(old, path)} → {_told(new, path)}"


def _told(leaves: dict[tuple[str, ...], object], path: tuple[str, ...]) -> str:
    return repr(leaves[path]) if path in leaves else "absent"


def _ids(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    if before.tokenizer is None or after.tokenizer is None:
        if before.tokenizer is not after.tokenizer:
            yield "the tokenizer appeared" if before.tokenizer is None else "the tokenizer is gone"
        return
    old, new = before.tokenizer.token_to_id, after.tokenizer.token_to_id
    yield from _listed("token new", [f"{token!r} = {new[token]}" for token in new if token not in old])
    yield from _listed("token lost", [f"{token!r} = {old[token]}" for token in old if token not in new])
    moved = [f"{token!r}: {old[token]} → {new[token]}" for token in old if new.get(token, old[token]) != old[token]]
    yield from _listed("id moved", moved)


def _files(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    weights = {*before.shards.headers, *after.shards.headers, INDEX, RECORD}
    old, new = set(before.files) - weights, set(after.files) - weights
    yield from _listed("file lost", sorted(old - new))
    yield from _listed("file new", sorted(new - old))
    changed = [name for name in sorted(old & new) if not files_equal(before.path(name), after.path(name))]
    yield from _listed("file changed", changed)


def _listed(what: str, names: list[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"{what}: {', '.join(names[:SHOWN])}{more}"
