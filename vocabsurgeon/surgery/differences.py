"""What differs between two checkpoints, in words: tensors, rows, flags, ids. Says what is, not whether it is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vocabsurgeon.checkpoint.compare import files_equal, tables_equal
from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.training_names import training_names
from vocabsurgeon.surgery.promises.states import config_leaves
from vocabsurgeon.surgery.promises.written_files import json_differences, parse_json
from vocabsurgeon.surgery.table_differences import listed, table_differences
from vocabsurgeon.vocabulary.describe import Description


def differences(before: Description, after: Description, renamed: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Every difference between the two, a line each; empty where they say the same.

    `renamed` maps the names that `before` really has to those it is compared under.
    """
    return (
        *_states(before, after),
        *listed("tensor renamed", [f"{key} → {name}" for key, name in (renamed or {}).items()]),
        *_left_by_training(renamed or {}, after),
        *_tensors(before.source, after.source),
        *table_differences(before, after),
        *_config(before.source, after.source),
        *_ids(before.source, after.source),
        *_files(before.source, after.source),
    )


def _left_by_training(renamed: Mapping[str, str], after: Description) -> Iterator[str]:
    """Whose names those are, where a training framework left them on one side."""
    sides = {"before": training_names(renamed), "after": after.tables.training}
    for side, names in sides.items() if renamed else ():
        for marker, count in names.counts:
            yield f"{side}: `{marker.text}` is in {count} names, as {marker.written_by} leaves it"


def _states(before: Description, after: Description) -> Iterator[str]:
    if before.tie.state is not after.tie.state:
        yield f"tie state: {before.tie.state} → {after.tie.state}"
    if before.vocabulary.rows != after.vocabulary.rows:
        yield f"rows: {before.vocabulary.rows} → {after.vocabulary.rows}"


def _tensors(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    yield from listed("tensor lost", [key for key in before.tensors if key not in after.tensors])
    yield from listed("tensor new", [key for key in after.tensors if key not in before.tensors])
    both = [key for key in before.tensors if key in after.tensors]
    reshaped = [key for key in both if before.tensors[key].shape != after.tensors[key].shape]
    yield from (
        f"{key}: shape {list(before.tensors[key].shape)} → {list(after.tensors[key].shape)}" for key in reshaped
    )
    retyped = [key for key in both if before.tensors[key].dtype != after.tensors[key].dtype]
    types = [f"{key} {before.tensors[key].dtype.name} → {after.tensors[key].dtype.name}" for key in retyped]
    yield from listed("dtype changed", types)
    alike = [key for key in both if key not in reshaped and key not in retyped]
    changed = [key for key in alike if not tables_equal(before.rows(key), after.rows(key))]
    yield from listed("values changed", changed)


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
    yield from listed("token new", [f"{token!r} = {new[token]}" for token in new if token not in old])
    yield from listed("token lost", [f"{token!r} = {old[token]}" for token in old if token not in new])
    moved = [f"{token!r}: {old[token]} → {new[token]}" for token in old if new.get(token, old[token]) != old[token]]
    yield from listed("id moved", moved)


def _files(before: Checkpoint, after: Checkpoint) -> Iterator[str]:
    weights = {*before.shards.files, *after.shards.files, RECORD}
    old, new = set(before.files) - weights, set(after.files) - weights
    yield from listed("file lost", sorted(old - new))
    yield from listed("file new", sorted(new - old))
    changed = [name for name in sorted(old & new) if not files_equal(before.path(name), after.path(name))]
    yield from listed("file changed", changed)
    for name in changed:
        if name.endswith(".json") and name != CONFIG:
            yield from _keys(before, after, name)


def _keys(before: Checkpoint, after: Checkpoint, name: str) -> Iterator[str]:
    """What two JSON files say differently, the first lines of it."""
    try:
        told = list(json_differences(parse_json(before.read_bytes(name)), parse_json(after.read_bytes(name))))
    except (ValueError, RecursionError) as error:
        told = [f"cannot be compared as JSON: {error}"]
    yield from (f"{name}: {line}" for line in (told or ["the layout alone"])[:_MOST_KEYS])
    if len(told) > _MOST_KEYS:
        yield f"{name}: and {len(told) - _MOST_KEYS} more differences"


_MOST_KEYS = 12
