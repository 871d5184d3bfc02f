"""The export sweep: every model type of the causal, masked and seq2seq auto classes, a fork for each export."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.families.builds import timm_towers_empty
from tests.onnx.sweep.processes import Lost, forked
from tests.sweep.models import Unbuilt, built
from tests.sweep.run import subjects as all_subjects

if TYPE_CHECKING:
    from transformers import PreTrainedModel

AUTO = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
)
SECONDS = int(os.environ.get("VOCABSURGEON_SWEEP_SECONDS", "300"))
"""What one export may take."""


@dataclass(frozen=True)
class Outcome:
    """What one exporter made of one class. `verdict`: passed, failed, or unbuilt."""

    model_type: str
    class_name: str
    exporter: str
    verdict: str
    why: str


def subjects(wanted: Iterable[str] = ()) -> list[tuple[str, str]]:
    """(model type, class name) of every class in `AUTO`, each once."""
    return all_subjects(wanted, AUTO)


def outcomes(pairs: Iterable[tuple[str, str]], exporters: Iterable[str]) -> Iterator[Outcome]:
    """Every pair through every exporter, two processes at a time, as they end."""
    _import_once()
    work = [(*pair, exporter) for pair in pairs for exporter in exporters]
    for task, result in forked(lambda task: here(*task), work, SECONDS):
        yield Outcome(*task, "failed", str(result)) if isinstance(result, Lost) else result


def here(model_type: str, class_name: str, exporter: str) -> Outcome:
    """One export in this process."""
    from tests.onnx.sweep.exporters import EXPORTERS

    with timm_towers_empty(), tempfile.TemporaryDirectory() as folder:
        try:
            model = _tiny(model_type, class_name)
        except Unbuilt as error:
            return Outcome(model_type, class_name, exporter, "unbuilt", _line(error))
        try:
            return Outcome(model_type, class_name, exporter, "passed", EXPORTERS[exporter](model, Path(folder)))
        except Exception as error:  # whatever an exporter raises is the reason to print
            return Outcome(model_type, class_name, exporter, "failed", _line(error))


def _tiny(model_type: str, class_name: str) -> PreTrainedModel:
    """The class with tied tables; untied where it refuses them."""
    try:
        return built(model_type, class_name, tied=True).model
    except Unbuilt:
        return built(model_type, class_name, tied=False).model


def main(arguments: list[str]) -> int:
    """Print outcomes as they come, the counts, and what passes there and not here; 1 where there is such a model."""
    exporters = [name for name in ("ours", "theirs") if f"--{name}" in arguments] or ["ours", "theirs"]
    seen = []
    for outcome in outcomes(subjects([a for a in arguments if not a.startswith("-")]), exporters):
        print("\t".join(vars(outcome).values()), flush=True)
        seen.append(outcome)
    print()
    for (exporter, verdict), count in sorted(Counter((o.exporter, o.verdict) for o in seen).items()):
        print(f"{exporter:8}{verdict:10}{count}")
    if len(exporters) == 1:
        return 0
    lacking = behind(seen)
    print(f"passes with transformers.exporters alone, not here: {', '.join(lacking) or 'none'}")
    return int(bool(lacking))


def behind(seen: Iterable[Outcome]) -> list[str]:
    """Classes that transformers.exporters pass alone and this package does not."""
    outcomes = list(seen)
    return sorted(passing(outcomes, "theirs") - passing(outcomes, "ours"))


def passing(seen: Iterable[Outcome], exporter: str) -> set[str]:
    """Names of the classes that an exporter passes."""
    return {outcome.class_name for outcome in seen if (outcome.exporter, outcome.verdict) == (exporter, "passed")}


def _import_once() -> None:
    """What every export imports, before the forks."""
    import onnxruntime
    import torch
    from transformers.exporters import exporter_onnx

    from tests.onnx.sweep import exporters
    from vocabsurgeon.onnx import export

    torch.set_num_threads(1)
    assert all((onnxruntime, exporter_onnx, exporters, export))


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:240]
