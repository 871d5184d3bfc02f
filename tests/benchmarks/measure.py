"""Wall time and peak memory of fresh processes, side by side. Prints ratios; asserts nothing about time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import vocabsurgeon

Command = Sequence[str | Path]

# A parent's memory counts as its child's peak until the child has started: so a small process of its own starts it.
_LAUNCHER = """
import json, os, sys, time
begun = time.monotonic()
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
wall = time.monotonic() - begun
print(json.dumps([os.waitstatus_to_exitcode(status), wall, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime]))
"""


@dataclass(frozen=True)
class Run:
    """One process: `wall` and `cpu` in seconds, `peak` resident bytes. `best`: the shortest wall of several."""

    wall: float
    peak: int
    cpu: float
    best: float


def fresh(command: Command) -> Run:
    """Run `command` to its end; raises `RuntimeError` where it fails."""
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, command)]
    done = subprocess.run(launch, capture_output=True, text=True, check=True, env=_environment())
    code, wall, peak, cpu = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"{command} failed with {code}: {done.stderr}")
    return Run(wall, peak, cpu, wall)


def _environment() -> dict[str, str]:
    """The same package as in this process, installed or not."""
    return {**os.environ, "PYTHONPATH": str(Path(vocabsurgeon.__file__).parents[1])}


def tool(*arguments: str | Path) -> list[str | Path]:
    """The command line of vocabsurgeon in this interpreter."""
    return [sys.executable, "-m", "vocabsurgeon", *arguments]


def copied_and_synced(source: Path, out: Path) -> list[str | Path]:
    """`cp -r` of a folder or file, then fsync of each copied file: what the system does at its best."""
    return ["sh", "-c", 'cp -r "$1" "$2" && find "$2" -type f -exec sync {} +', "sh", source, out]


def interleaved(
    commands: Mapping[str, Callable[[Path], Command]], source: Path, work: Path, rounds: int
) -> dict[str, Run]:
    """Each command `rounds` times in turn, each into a new OUT below `work`; medians of wall and CPU, highest peak.

    Before each run the page cache holds the source, and nothing that an earlier run wrote waits for the disk. With more
    than one round, one goes before that is not counted.
    """
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(rounds + (rounds > 1)):
        for name in commands if number % 2 else reversed(commands):
            out = work / "out"
            _settle(source)
            runs[name].append(fresh(commands[name](out)))
            shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    return {name: _middle(done[rounds > 1 :]) for name, done in runs.items()}


def _settle(source: Path) -> None:
    subprocess.run(["sync"], check=True)
    paths = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def _middle(runs: Sequence[Run]) -> Run:
    walls = [run.wall for run in runs]
    return Run(median(walls), max(run.peak for run in runs), median(run.cpu for run in runs), min(walls))


def table(title: str, rows: Sequence[Sequence[str]], heads: Sequence[str]) -> None:
    """Print rows as a Markdown table under a title."""
    print(f"\n{title}\n")
    widths = [max(len(line[column]) for line in (heads, *rows)) for column in range(len(heads))]
    for line in (heads, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |")


def compared(title: str, runs: Mapping[str, Run], reference: str) -> None:
    """Print each run beside `reference`: ratios of the medians, and of the best, which a busy machine spoils least."""
    base = runs[reference]
    rows = [
        [
            name,
            f"{run.wall:.2f} s",
            f"{run.wall / base.wall:.2f}",
            f"{run.best:.2f} s",
            f"{run.best / base.best:.2f}",
            f"{run.cpu:.2f} s",
            f"{run.peak / 1e6:.0f} MB",
        ]
        for name, run in runs.items()
    ]
    table(title, rows, ["", "median", f"÷ {reference}", "best", f"÷ {reference}", "CPU", "peak RSS"])
