"""`vocabsurgeon.json`, the report that lies in every result. It holds no times: same input, same bytes."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORD = "vocabsurgeon.json"
_TOLD = (
    "vocabsurgeon",
    "numpy",
    "ml_dtypes",
    "safetensors",
    "tokenizers",
    "transformers",
    "torch",
    "onnx",
    "onnxruntime",
)


def versions() -> dict[str, str | None]:
    """Versions of the package and what it works with, from their metadata: nothing is imported."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _TOLD}}


def write_record(folder: Path, report: Mapping[str, Any], fingerprint: Mapping[str, Any], **more: Any) -> None:
    """Write `report`, the versions and the source's fingerprint as `folder/vocabsurgeon.json`."""
    document = {**report, **more, "versions": versions(), "source_fingerprint": dict(fingerprint)}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    # A file name that is not UTF-8 arrives as half surrogate pairs, which `backslashreplace` spells as JSON does.
    (folder / RECORD).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
