"""Silence for libraries that talk while they work: their warnings are about their own insides, not about the user's model."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("torch", "torch.onnx", "torch.export", "transformers", "onnxscript", "onnx_ir")


@contextmanager
def quiet() -> Iterator[None]:
    """No Python warnings, no log lines below error and no progress bars of torch and transformers inside the block."""
    from transformers.utils import logging as transformers_logging

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if had_bars:
            transformers_logging.enable_progress_bar()
