"""A progress bar on stderr for a person who waits; created only where stderr is a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bar:
    """Called with (stage, done, total); shows one line per stage, gone when the stage is done."""

    def __init__(self, *, color: bool = True) -> None:
        console = Console(file=sys.stderr, no_color=not color)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` units of `stage` are done."""
        if not self._tasks:
            self._progress.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=max(total, 1))
        self._progress.update(self._tasks[stage], completed=done, total=max(total, 1))
        if done >= total and all(task.finished for task in self._progress.tasks):
            self._progress.stop()
            self._tasks.clear()
