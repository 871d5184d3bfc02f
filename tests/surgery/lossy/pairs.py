"""Checkpoints with two different tables made on purpose, and tying them without running the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.surgery.shelf import taken, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.lossy.request import Keep, TieRequest
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.run import tie
from vocabsurgeon.vocabulary.describe import Description, describe


def described(folder: Path) -> Description:
    """The checkpoint in `folder`, described with its tables compared."""
    return describe(Checkpoint.open(folder), compare=True)


def keys(folder: Path) -> tuple[str, str]:
    """The names of the stored input embedding and head."""
    tables = described(folder).tables
    assert tables.input and tables.output
    return tables.input.key, tables.output.key


def with_head(
    target: Path, make: Callable[[torch.Tensor], torch.Tensor], family: str = "llama", **options: Any
) -> Path:
    """An untied tiny checkpoint of `family` whose head is `make(input embedding)`."""
    source = taken(target, family, tied=False, **options)
    first, second = keys(source)
    return with_tensors(source, lambda tensors: tensors.update({second: make(tensors[first].clone())}))


def columns() -> torch.Tensor:
    """Factors of columns that no rounding touches in float32: powers of two, one of them negative."""
    factors = 2.0 ** (torch.arange(16) % 3 - 1)
    factors[3] = -1.0
    return factors


def kept(source: Path, out: Path, keep: Keep, *, refit: bool = False, **options: Any) -> OperationReport:
    """Tie the pair without measuring; the report."""
    request = TieRequest(keep, refit_norm=refit, allow_lossy=True, probe=False)
    report = tie(source, out, RunOptions(**options), request)
    assert isinstance(report, OperationReport) and report.passed and report.proof.passed, report
    return report
