"""Promises about what the files declare: config values at every level, and the tie state the result is found in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.codec import TRANSIENT
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.families import Family
from vocabsurgeon.vocabulary.tie_state import TieState


@dataclass(frozen=True)
class ConfigAsIntended(Promise):
    """config.json says `values` (dotted path, value) and is otherwise what it was."""

    name: ClassVar[str] = "config_as_intended"
    values: tuple[tuple[tuple[str, ...], Any], ...]

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares every leaf of both documents."""
        wanted = {**config_leaves(before.config), **dict(self.values)}
        found = config_leaves(after.config)
        problems = [
            f"{'.'.join(path)} is {found.get(path)!r}, not {wanted.get(path)!r}"
            for path in sorted(wanted.keys() | found.keys())
            if path not in found or path not in wanted or not _same(found[path], wanted[path])
        ]
        return verdict(problems, f"config.json says {_told(self.values)} and is otherwise unchanged")


@dataclass(frozen=True)
class TieStateAsIntended(Promise):
    """The result, opened anew, is in tie state `state` and its tables have `rows` rows."""

    name: ClassVar[str] = "tie_state_as_intended"
    state: TieState
    rows: int
    input_key: str | None = None
    output_key: str | None = None
    observed: Family | None = field(default=None, metadata=TRANSIENT)
    """What the meta device showed of the class. Not recorded: a record must not say what to believe."""

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Describes the result from its files alone."""
        input_key, output_key = (key if key in after.tensors else None for key in (self.input_key, self.output_key))
        found = describe(after, input_key=input_key, output_key=output_key, observed=self.observed)
        problems = []
        if found.tie.state is not self.state:
            problems.append(f"the state is {found.tie.state}, not {self.state}: {'; '.join(found.tie.evidence)}")
        if found.vocabulary.rows != self.rows:
            problems.append(f"the table has {found.vocabulary.rows} rows, not {self.rows}")
        return verdict(problems, f"the state is {self.state}, the table has {self.rows} rows")


def config_leaves(config: Config) -> dict[tuple[str, ...], Any]:
    """Every value of the document that is no object, by its path."""
    return dict(_leaves((), config.data))


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and (value or not path):
        for key, item in value.items():
            yield from _leaves((*path, key), item)
    else:
        yield path, value


def _same(found: Any, wanted: Any) -> bool:
    """Equal, and of one type: JSON's `true` is not `1`; NaN equals itself."""
    return type(found) is type(wanted) and (found == wanted or (found != found and wanted != wanted))


def _told(values: tuple[tuple[tuple[str, ...], Any], ...]) -> str:
    return ", ".join(f"{'.'.join(path)} = {value!r}" for path, value in values) or "what it said"
