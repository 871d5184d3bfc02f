"""Tensors that another tool stored under another name: found by spelling or by bits, and undone for a comparison."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.rows import read_into
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.training_names import training_names
from vocabsurgeon.checkpoint.training_names import under_names as with_names

__all__ = ["find_renames", "with_names"]

_GLANCE = 4096
"""Bytes at the start of a tensor that tell most tensors of one shape apart."""
_LEAST = 2
"""Parts at the end of two names (`embed_tokens.weight`) that make them names of one tensor."""


def find_renames(before: Checkpoint, after: Checkpoint) -> dict[str, str]:
    """Key in `before` → key in `after`, for tensors that only one of them has under that name.

    The names are one without what a training framework put in, or end alike while no other name does; else the bits
    are the same, and no other's. What is left follows those renames, so that a tensor of a renamed layer is found
    though its values changed; then bits that several share.
    """
    olds, news = training_names(before.tensors).plain, training_names(after.tensors).plain
    lost = {olds.get(key, key): key for key in before.tensors if key not in after.tensors}
    new = {news.get(key, key): key for key in after.tensors if key not in before.tensors}
    seen = with_names(before, olds), with_names(after, news)
    found = {plain: plain for plain in lost if plain in new}
    for step in (_by_end, _by_own_bits, _by_rule, _by_bits):
        left = (set(lost) - set(found), set(new) - set(found.values()))
        if all(left):
            found |= dict(step(*seen, *left, dict(found)))
    return {key: new[found[plain]] for plain, key in lost.items() if plain in found}


Pairs = Iterator[tuple[str, str]]
Found = Mapping[str, str]


def _by_end(before: Checkpoint, after: Checkpoint, lost: Collection[str], new: Collection[str], _: Found) -> Pairs:
    """Names that end alike in the most parts, where one key and one name do; the longest ends first."""
    olds, news = set(lost), set(new)
    most = max(key.count(".") + 1 for key in (*lost, *new))
    for count in range(most, _LEAST - 1, -1):
        held, wanted = _ends(olds, count), _ends(news, count)
        for end, keys in held.items():
            names = wanted.get(end, [])
            if len(keys) == len(names) == 1 and _alike(before, keys[0], after, names[0]):
                olds.discard(keys[0])
                news.discard(names[0])
                yield keys[0], names[0]


def _ends(names: Collection[str], count: int) -> dict[tuple[str, ...], list[str]]:
    """The last `count` parts → the names that end so; a shorter name is its own end."""
    ends: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in names:
        ends[tuple(name.split(".")[-count:])].append(name)
    return ends


def _alike(before: Checkpoint, key: str, after: Checkpoint, name: str) -> bool:
    """Whether the shapes are the same, or differ in the first axis alone (a table that grew)."""
    old, new = before.tensors[key].shape, after.tensors[name].shape
    return old == new or (len(old) == len(new) > 1 and old[1:] == new[1:])


def _by_own_bits(before: Checkpoint, after: Checkpoint, lost: Collection[str], new: Collection[str], _: Found) -> Pairs:
    """The same bits, which no other tensor on either side has."""
    olds, news = _glances(before, lost), _glances(after, new)
    for glance, keys in olds.items():
        names = news.get(glance, [])
        if len(keys) == len(names) == 1 and tables_equal(before.rows(keys[0]), after.rows(names[0])):
            yield keys[0], names[0]


def _by_bits(before: Checkpoint, after: Checkpoint, lost: Collection[str], new: Collection[str], found: Found) -> Pairs:
    """The same bits; of several names with those, the one that other renames lead to, then the one that ends alike."""
    places, rules = _glances(after, new), Counter(_rule(*pair) for pair in found.items())
    for key in sorted(lost):
        candidates = places.get(_glance(before, key), [])
        for name in sorted(candidates, key=lambda name: (-rules[_rule(key, name)], -_common_end(key, name))):
            if tables_equal(before.rows(key), after.rows(name)):
                candidates.remove(name)
                yield key, name
                break


def _by_rule(before: Checkpoint, after: Checkpoint, lost: Collection[str], new: Collection[str], found: Found) -> Pairs:
    """What the most usual of the renames makes of a key, where that is a name there is."""
    rules = Counter(_rule(*pair) for pair in found.items())
    left = set(new)
    for key in sorted(lost):
        for (old, fresh), _ in rules.most_common():
            name = fresh + key.removeprefix(old)
            if key.startswith(old) and name in left and _alike(before, key, after, name):
                left.discard(name)
                yield key, name
                break


def _rule(key: str, name: str) -> tuple[str, str]:
    """What stands before the part that the two names end in: what a rename takes away, and what it puts there."""
    parts = _common_end(key, name)
    if parts == 0:
        return key, name
    end = ".".join(key.split(".")[-parts:])
    return key.removesuffix(end), name.removesuffix(end)


def _glances(source: Checkpoint, keys: Collection[str]) -> dict[tuple[object, ...], list[str]]:
    """What tensors begin with → the keys of those that do."""
    found: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for key in sorted(keys):
        found[_glance(source, key)].append(key)
    return found


def _glance(source: Checkpoint, key: str) -> tuple[object, ...]:
    info = source.tensors[key]
    start = bytearray(min(_GLANCE, info.nbytes))
    if start:
        read_into(source.path(info.file), info.start, memoryview(start))
    return info.dtype.name, info.shape, bytes(start)


def _common_end(first: str, second: str) -> int:
    pairs = zip(reversed(first.split(".")), reversed(second.split(".")), strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(first.count("."), second.count(".")) + 1)
