"""Weight files by their names alone: numbered sets (`model-00001-of-00003.safetensors`), whole or not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBERED = re.compile(
    r"(?:(?P<stem>.+)[-_.])?(?P<number>\d{1,9})[-_]of[-_](?P<total>\d{1,9})\.(?P<ending>safetensors|bin)"
)
_LONE_NUMBER = re.compile(r"(^|[-_.])\d+$")
_NOT_THE_MODEL = re.compile(r"adapter|optimizer|scheduler|rng_state|random_states|training_args|scaler")
"""Stems of files that hold weights of something else (PEFT) or states of a training (transformers' Trainer)."""


@dataclass(frozen=True)
class ShardSet:
    """The files of one numbered set: one stem, one total, one format."""

    stem: str
    total: int
    ending: str
    files: tuple[str, ...]
    """In the order of their numbers."""
    missing: tuple[int, ...]
    """Numbers that no file bears."""

    @property
    def complete(self) -> bool:
        """Whether every number is there."""
        return not self.missing

    def __str__(self) -> str:
        shown = f"{self.files[0]} to {self.files[-1]}" if len(self.files) > 2 else " and ".join(self.files)
        lacking = ", ".join(map(str, self.missing[:5])) + (", …" if len(self.missing) > 5 else "")
        return shown if self.complete else f"{shown} ({len(self.files)} of {self.total}; number {lacking} is not there)"


def shard_sets(files: Iterable[str]) -> tuple[ShardSet, ...]:
    """The numbered sets of model weights among `files` (names in one folder). Numbers count from 1, or from 0."""
    found: dict[tuple[str, int, str], dict[int, str]] = {}
    for name in sorted(files):
        match = _NUMBERED.fullmatch(name)
        if match and not _NOT_THE_MODEL.search(match["stem"] or ""):
            group = found.setdefault((match["stem"] or "", int(match["total"]), match["ending"]), {})
            group.setdefault(int(match["number"]), name)
    return tuple(_set(*key, numbers) for key, numbers in found.items())


def _set(stem: str, total: int, ending: str, numbers: dict[int, str]) -> ShardSet:
    first = 0 if 0 in numbers else 1
    wanted = range(first, first + min(total, _MOST))
    missing = tuple(number for number in wanted if number not in numbers)
    missing = missing or ((total,) if total > _MOST or not total else ())
    return ShardSet(stem, total, ending, tuple(numbers[number] for number in sorted(numbers)), missing)


_MOST = 100_000
"""Shards that a checkpoint may have; a name that speaks of more is no name of a shard."""


def may_be_renamed(name: str) -> bool:
    """Whether a lone weights file is the whole model under another name, as far as its name tells: no number in it."""
    stem = name.rpartition(".")[0]
    return not (_NUMBERED.fullmatch(name) or _LONE_NUMBER.search(stem) or _NOT_THE_MODEL.search(stem))
