"""Silence for libraries that talk while they work: they warn about their own insides, not about the user's model."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any


@contextmanager
def quiet(level: int = logging.WARNING) -> Iterator[None]:
    """No Python warnings, no log lines up to `level` and no progress bars of transformers inside the block."""
    from transformers.utils import logging as transformers_logging

    bars: Any = transformers_logging
    had_bars = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    disabled = logging.root.manager.disable
    logging.disable(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        if had_bars:
            bars.enable_progress_bar()


@contextmanager
def silenced() -> Iterator[None]:
    """`quiet`, errors in the log included: what matters of them is in what a load reports, or is raised."""
    with quiet(logging.CRITICAL):
        yield


@contextmanager
def mute() -> Iterator[None]:
    """`quiet`, and nothing on stdout or stderr either: torch prints whole graphs before it raises."""
    with quiet(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield
