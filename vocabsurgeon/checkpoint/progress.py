"""How long work tells how far it is: a callable, so that no part below the command line prints."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with a stage name and how much of it is done, in the stage's own unit (bytes, tokens, steps)."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


def silent(stage: str, done: int, total: int) -> None:
    """The progress that shows nothing."""
