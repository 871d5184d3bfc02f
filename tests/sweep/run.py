"""The sweep: model types in, a table of outcomes out. Each class is a subject twice, with the flag true and false."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

AUTO = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
)
"""The auto classes whose every model type is tried."""
OPERATIONS = ("inspect", "extend", "untie", "tie")
CHUNK = 24
"""Classes a process: a crash loses no more."""


def subjects(wanted: Iterable[str] = (), auto: Iterable[str] = AUTO) -> list[tuple[str, str]]:
    """(model type, class name) of every class in the auto classes `auto`, each once."""
    from transformers.models.auto import modeling_auto

    types, found = set(wanted), {}
    for name in auto:
        for model_type, classes in getattr(modeling_auto, name).items():
            for cls in (classes,) if isinstance(classes, str) else classes:
                if not types or model_type in types:
                    found[model_type, cls] = None
    return list(found)


def rows(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Tab-separated outcomes: type, class, flag, operation, verdict, why. Runs here; slow, and a crash ends it."""
    from tests.families.builds import timm_towers_empty

    for model_type, cls in pairs:
        for tied in (True, False):
            with timm_towers_empty():
                found = list(_outcomes(model_type, cls, tied))
            for operation, verdict, why in found:
                yield "\t".join((model_type, cls, "tied" if tied else "untied", operation, verdict, why))


def _outcomes(model_type: str, cls: str, tied: bool) -> Iterator[tuple[str, str, str]]:
    from tests.sweep.models import built
    from tests.sweep.operate import Broken, outcomes

    try:
        tiny = built(model_type, cls, tied)
    except Exception as error:  # whatever a class raises is the reason to print
        yield "build", "unbuilt", _one_line(error)
        return
    if tiny.logits is None:
        yield "run", "no logits", tiny.unrun
    with tempfile.TemporaryDirectory() as folder:
        try:
            for outcome in outcomes(tiny, Path(folder)):
                yield outcome.operation, "held" if outcome.held else "BROKEN", outcome.why
        except Broken as error:
            yield "reload", "unsound", str(error)
        except Exception as error:  # transformers cannot save or load its own model
            yield "reload", "unsound", _one_line(error)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def main(arguments: list[str]) -> int:
    """Print outcomes as they come and the counts at the end; 1 where an operation broke."""
    if arguments[:1] == ["--here"]:
        _quiet()
        for line in rows(tuple(pair.split("=")) for pair in arguments[1:]):  # type: ignore[misc]
            print(line, flush=True)
        return 0
    counts: Counter[tuple[str, str]] = Counter()
    for line in table(subjects(arguments)):
        print(line, flush=True)
        counts[tuple(line.split("\t")[3:5])] += 1  # type: ignore[index]
    print()
    for (operation, verdict), count in sorted(counts.items()):
        print(f"{operation:8} {verdict:10} {count}")
    return int(any(verdict == "BROKEN" for _, verdict in counts))


def table(pairs: list[tuple[str, str]]) -> Iterator[str]:
    """The outcomes of `pairs`, a process for each chunk."""
    for start in range(0, len(pairs), CHUNK):
        chunk = ["=".join(pair) for pair in pairs[start : start + CHUNK]]
        command = [sys.executable, "-m", "tests.sweep", "--here", *chunk]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        ) as process:
            assert process.stdout is not None
            yield from (line.rstrip("\n") for line in process.stdout)
        if process.returncode:
            yield f"{chunk[0]}…\t\t\tprocess\tBROKEN\texit {process.returncode}"


def _quiet() -> None:
    import torch
    import transformers

    transformers.logging.set_verbosity(logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
