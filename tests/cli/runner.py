"""Runs the command line: in this process, or in one of its own where signals, limits or a fresh interpreter matter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from vocabsurgeon.cli import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    """What a run came to."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object that is all of stdout."""
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def line(self) -> str:
        """The one line on stderr."""
        assert self.stderr.count("\n") == 1 and self.stderr.endswith("\n"), self.stderr
        return self.stderr


def vocabsurgeon(*arguments: str | Path) -> Ran:
    """Run in this process."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert "Traceback" not in result.output or "-v" in arguments, result.output
    return Ran(result.exit_code, result.stdout, result.stderr)


def command(*arguments: str | Path) -> list[str]:
    """The command line of a run in a process of its own."""
    return [sys.executable, "-W", "error", "-m", "vocabsurgeon", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """The environment of such a process: the package is found, nothing is colored."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **more}


def in_process(arguments: Sequence[str | Path], **options: Any) -> Ran:
    """Run in a process of its own."""
    env = environment(**options.pop("env", {}))
    done = subprocess.run(command(*arguments), env=env, capture_output=True, text=True, timeout=120, **options)
    return Ran(done.returncode, done.stdout, done.stderr)
