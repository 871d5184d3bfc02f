"""Exports of the tiny models, each made once a session: tracing takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.models.tiny import build
from tests.onnx.kinds import save
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.export_report import ExportReport


@dataclass(frozen=True)
class Exported:
    """A tiny checkpoint, the folder it was exported to, and the report."""

    checkpoint: Path
    folder: Path
    report: ExportReport


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """`exported(family, tied, options=…, **config)`: do not write into what it returns."""
    made: dict[str, Exported] = {}

    def get(family: str, tied: bool = True, options: ExportOptions = ExportOptions(), **config: Any) -> Exported:
        key = f"{family} {tied} {options} {sorted(config.items())}"
        if key not in made:
            root = tmp_path_factory.mktemp(family)
            checkpoint = build(family, root / "checkpoint", tied, **config)
            made[key] = Exported(checkpoint, root / "out", export(checkpoint, root / "out", options))
        return made[key]

    return get


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """`kinds(name)`: a row of `kinds.MODELS`, each exported once; do not write into what it returns."""
    made: dict[str, Exported] = {}

    def get(name: str) -> Exported:
        if name not in made:
            root = tmp_path_factory.mktemp("kind")
            checkpoint = save(name, root / "checkpoint")
            made[name] = Exported(checkpoint, root / "out", export(checkpoint, root / "out"))
        return made[name]

    return get
