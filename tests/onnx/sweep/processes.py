"""One fork a task: what tasks import is imported once, and one that crashes or never ends takes no other along."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any


class Lost(Exception):
    """A task that gave no result: it ran too long, or its process ended."""


@dataclass
class _Running:
    task: Any
    process: Any
    receiver: Connection
    until: float


def forked(
    run: Callable[[Any], Any], tasks: Iterable[Any], seconds: float, at_once: int = 2
) -> Iterator[tuple[Any, Any]]:
    """(task, `run(task)` or `Lost`) as they end. Call it before this process has threads: a fork keeps none."""
    waiting, running = iter(tasks), list[_Running]()
    while True:
        while len(running) < at_once and (task := next(waiting, None)) is not None:
            running.append(_started(run, task, seconds))
        if not running:
            return
        wait([each.receiver for each in running], max(0.0, min(each.until for each in running) - time.monotonic()))
        for each in list(running):
            if each.receiver.poll() or time.monotonic() > each.until:
                running.remove(each)
                yield each.task, _result(each, seconds)


def _started(run: Callable[[Any], Any], task: Any, seconds: float) -> _Running:
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(run, task, sender), daemon=True)
    process.start()
    sender.close()
    return _Running(task, process, receiver, time.monotonic() + seconds)


def _child(run: Callable[[Any], Any], task: Any, sender: Connection) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sender.send(run(task))


def _result(each: _Running, seconds: float) -> Any:
    try:
        return each.receiver.recv() if each.receiver.poll() else Lost(f"no end after {seconds:.0f} s")
    except EOFError:
        each.process.join()
        return Lost(f"the process ended with {each.process.exitcode}")
    finally:
        each.process.kill()
        each.process.join()
        each.receiver.close()
