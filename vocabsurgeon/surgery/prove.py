"""`prove`: check each promise against the files as they lie there. What was not looked at is "not checked"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import VocabsurgeonError
from vocabsurgeon.surgery.promises import Promise, Verdict
from vocabsurgeon.surgery.promises.base import NOT_CHECKED


@dataclass(frozen=True)
class Proof:
    """Each promise with its verdict, in the plan's order."""

    verdicts: tuple[tuple[Promise, Verdict], ...]
    after: Checkpoint | None = None
    """The result as it was opened for the proof; None where it was not opened."""

    @property
    def passed(self) -> bool | None:
        """False where any promise is broken, None where any was not checked, else True."""
        outcomes = [verdict.passed for _, verdict in self.verdicts]
        return False if False in outcomes else None if None in outcomes else True

    @property
    def by_name(self) -> dict[str, bool | None]:
        """Promise name → outcome; several promises of one name count together."""
        names: dict[str, list[bool | None]] = {}
        for promise, verdict in self.verdicts:
            names.setdefault(promise.name, []).append(verdict.passed)
        return {name: False if False in seen else None if None in seen else True for name, seen in names.items()}

    @property
    def evidence(self) -> dict[str, list[str]]:
        """Promise name → what was seen."""
        names: dict[str, list[str]] = {}
        for promise, verdict in self.verdicts:
            names.setdefault(promise.name, []).extend(verdict.evidence)
        return names

    def to_dict(self) -> dict[str, Any]:
        """`proof` and `proof_evidence` of a report."""
        return {"proof": self.by_name, "proof_evidence": self.evidence}


def prove(before: Checkpoint, folder: Path, promises: Iterable[Promise], progress: Progress = silent) -> Proof:
    """Open `folder` anew and check each promise between `before` and it.

    A result that cannot even be opened breaks every promise; an expected error inside a check breaks that one.
    """
    promises = tuple(promises)
    try:
        after = Checkpoint.open(folder)
    except VocabsurgeonError as error:
        return Proof(tuple((promise, Verdict(False, (str(error),))) for promise in promises))
    return prove_opened(before, after, promises, progress)


def prove_opened(
    before: Checkpoint, after: Checkpoint, promises: tuple[Promise, ...], progress: Progress = silent
) -> Proof:
    """As `prove`, where the result is open already."""
    verdicts = []
    for number, promise in enumerate(promises, 1):
        verdicts.append((promise, _checked(promise, before, after)))
        progress("prove", number, len(promises))
    return Proof(tuple(verdicts), after)


def unproved(promises: Iterable[Promise]) -> Proof:
    """The proof that was not made: every verdict is "not checked"."""
    return Proof(tuple((promise, NOT_CHECKED) for promise in promises))


def _checked(promise: Promise, before: Checkpoint, after: Checkpoint) -> Verdict:
    try:
        return promise.check(before, after)
    except VocabsurgeonError as error:
        return Verdict(False, (str(error),))
