"""The spellings of a key of the families table that a checkpoint may hold: its other names, the base model's prefix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.families import Family, known_output_keys


def first_stored(
    source: Checkpoint, keys: Iterable[str], prefix: str, also: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> str | None:
    """The first of `keys` that is stored, as such, under another of its names, or with or without the base prefix."""
    for key in keys:
        for name in (key, *also.get(key, ())):
            for spelling in _spellings(name, prefix):
                if spelling in source.tensors:
                    return spelling
    return None


def _spellings(key: str, prefix: str) -> Iterator[str]:
    yield key
    if prefix and key.startswith(prefix + "."):
        yield key[len(prefix) + 1 :]
    elif prefix:
        yield f"{prefix}.{key}"


def bare(key: str, prefix: str) -> tuple[str, ...]:
    """`key` without the base model's prefix, where it has it."""
    return (key.removeprefix(prefix + "."),) if prefix and key.startswith(prefix + ".") else ()


def below_another_prefix(source: Checkpoint, key: str, prefix: str) -> str | None:
    """The one stored key that is `key` with another name of the base model before it (LlamaForQuestionAnswering)."""
    plain = next(iter(bare(key, prefix)), key)
    found = [stored for stored in source.tensors if stored.partition(".")[2] == plain]
    return found[0] if len(found) == 1 else None


def speller(
    source: Checkpoint, prefix: str, also: Mapping[str, tuple[str, ...]], without: bool
) -> Callable[[str], str]:
    """A key of the families table in the spelling that is stored, or would be: without the prefix where all are."""

    def spelled(key: str) -> str:
        return first_stored(source, [key], prefix, also) or (next(iter(bare(key, prefix)), key) if without else key)

    return spelled


def stored_as(source: Checkpoint, key: str, prefix: str, also: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The stored keys that `key` stands for: one under its spellings, or with `*` one for each layer."""
    if "*" not in key:
        spelling = first_stored(source, [key], prefix, also)
        yield from () if spelling is None else (spelling,)
        return
    patterns = [re.escape(spelling).replace(r"\*", r"\d+") for spelling in _spellings(key, prefix)]
    yield from (stored for stored in source.tensors if any(re.fullmatch(pattern, stored) for pattern in patterns))


def of_one_parameter(family: Family | None) -> tuple[str, ...]:
    """The other names under which a tied input embedding may be stored: those of its group but the head's."""
    groups = (*family.shared, *family.shared_if_tied) if family else ()
    return tuple(
        key for group in groups if family and family.input_key in group for key in group if key != family.output_key
    )


def output_keys(family: Family | None, architecture: str | None, seen: str | None) -> list[str]:
    """The names an LM head may have: of the class, as `seen`, else every known one; none for a base model."""
    if family is not None:
        return [family.output_key] if family.output_key else []
    if seen is not None:
        return [seen]
    if architecture is not None and architecture.endswith("Model"):
        return []
    return list(known_output_keys())
