"""What a promise and its verdict are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from vocabsurgeon.checkpoint.source import Checkpoint


@dataclass(frozen=True)
class Verdict:
    """`passed` True, False, or None for "not checked"; `evidence` says what was seen, a line each."""

    passed: bool | None
    evidence: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """`passed`, `FAILED` or `not checked`."""
        return {True: "passed", False: "FAILED", None: "not checked"}[self.passed]

    def to_dict(self) -> dict[str, Any]:
        """JSON of one verdict."""
        return {"passed": self.passed, "evidence": list(self.evidence)}


NOT_CHECKED = Verdict(None, ("not checked",))


def verdict(problems: list[str], seen: str) -> Verdict:
    """Failed with the problems (the first twenty), or passed with what was seen."""
    return Verdict(False, tuple(problems[:20])) if problems else Verdict(True, (seen,))


class Promise(ABC):
    """One thing that holds of a result. Subclasses are frozen dataclasses of plain data: a record can store them."""

    name: ClassVar[str]
    """The key under `proof` in the report."""

    @abstractmethod
    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Re-read both checkpoints and say whether the promise is kept."""
