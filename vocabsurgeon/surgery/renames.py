"""Tensors that another tool stored under another name: found by spelling or by bits, and undone for a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.rows import read_into
from vocabsurgeon.checkpoint.source import Checkpoint

_GLANCE = 4096
"""Bytes at the start of a tensor that tell most tensors of one shape apart."""


def find_renames(before: Checkpoint, after: Checkpoint) -> dict[str, str]:
    """Key in `before` → key in `after`, for tensors that only one of them has under that name.

    One name is the other with a prefix more (`wte.weight`, `transformer.wte.weight`), or the bits are the same; of
    several tensors with the same bits the one whose name ends most alike.
    """
    lost = [key for key in before.tensors if key not in after.tensors]
    new = [key for key in after.tensors if key not in before.tensors]
    if not lost or not new:
        return {}
    found = {key: names[0] for key in lost if len(names := [name for name in new if _prefixed(key, name)]) == 1}
    found = {key: name for key, name in found.items() if list(found.values()).count(name) == 1}
    rest, taken = [key for key in lost if key not in found], set(found.values())
    return found | dict(_by_bits(before, rest, after, [name for name in new if name not in taken]))


def with_names(source: Checkpoint, names: Mapping[str, str]) -> Checkpoint:
    """`source` with its tensors called `names`; they lie where they lay."""
    headers = {
        file: replace(
            header, tensors=tuple(replace(info, key=names.get(info.key, info.key)) for info in header.tensors)
        )
        for file, header in source.shards.headers.items()
    }
    return replace(source, shards=replace(source.shards, headers=headers))


def _prefixed(key: str, other: str) -> bool:
    return key.endswith("." + other) or other.endswith("." + key)


def _by_bits(
    before: Checkpoint, lost: Iterable[str], after: Checkpoint, new: Iterable[str]
) -> Iterator[tuple[str, str]]:
    places: dict[tuple[object, ...], list[str]] = {}
    for name in new:
        places.setdefault(_glance(after, name), []).append(name)
    for key in lost:
        candidates = places.get(_glance(before, key), [])
        for name in sorted(candidates, key=lambda name: _common_end(key, name), reverse=True):
            if tables_equal(before.rows(key), after.rows(name)):
                candidates.remove(name)
                yield key, name
                break


def _glance(source: Checkpoint, key: str) -> tuple[object, ...]:
    info = source.tensors[key]
    start = bytearray(min(_GLANCE, info.nbytes))
    if start:
        read_into(source.path(info.file), info.start, memoryview(start))
    return info.dtype.name, info.shape, bytes(start)


def _common_end(first: str, second: str) -> int:
    pairs = zip(reversed(first.split(".")), reversed(second.split(".")), strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(first.count("."), second.count(".")) + 1)
