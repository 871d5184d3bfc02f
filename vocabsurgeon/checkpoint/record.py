"""`vocabsurgeon.json`, the report that lies in every result. It holds no times: same input, same bytes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.fingerprint import checksums
from vocabsurgeon.checkpoint.folder import bookkeeping_folders, list_files

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


def write_record(
    folder: Path,
    report: Mapping[str, Any],
    fingerprint: Mapping[str, Any],
    contents: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Write `report`, the versions and the source's fingerprint as `folder/vocabsurgeon.json`.

    Beside them it holds size and SHA-256 of every other file below `folder` (`contents`, as `checksums` gives them;
    summed here where None) and, in its last line, a digest of itself.
    """
    sums = checksums(folder, _others(folder)) if contents is None else contents
    document = {**report, **more, "versions": versions(), "source_fingerprint": dict(fingerprint), CONTENTS: sums}
    text = json.dumps({**document, _DIGEST: _BLANK}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A file name that is not UTF-8 arrives as half surrogate pairs, which `backslashreplace` spells as JSON does.
    raw = text.encode("utf-8", errors="backslashreplace")
    place = raw.rindex(_BLANK.encode())
    (folder / RECORD).write_bytes(raw[:place] + _digest(raw) + raw[place + len(_BLANK) :])


@dataclass(frozen=True)
class RecordCheck:
    """What a folder's own record says of it now. `problems`: what is not as recorded, a line each; `unchecked`: what
    the record cannot tell; `seen`: how many files are as recorded, byte for byte."""

    problems: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    seen: int = 0

    @property
    def passed(self) -> bool | None:
        """False with a problem, None where something could not be told."""
        return False if self.problems else None if self.unchecked else True


def check_record(folder: Path) -> RecordCheck:
    """Compare every file below `folder` with the sums that its record holds, and the record with its own digest.

    Raises `CheckpointError` where a file cannot be read.
    """
    path = folder / RECORD
    if not path.is_file():
        return RecordCheck((), (f"there is no {RECORD}: what changed since it was written cannot be told",))
    raw = path.read_bytes()
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return RecordCheck((f"{RECORD} is not valid JSON",))
    contents = document.get(CONTENTS) if isinstance(document, dict) else None
    if not isinstance(contents, dict) and _DIGEST.encode() not in raw:
        return RecordCheck((), (f"{RECORD} holds no checksums: an older version wrote it, or another tool",))
    problems = [] if _is_sealed(raw) else [f"{RECORD} itself was changed"]
    if not isinstance(contents, dict):
        return RecordCheck((*problems, f"{RECORD} holds no checksums"))
    return _compared(folder, contents, problems)


def _compared(folder: Path, contents: Mapping[str, Any], problems: list[str]) -> RecordCheck:
    stated = {name: entry if isinstance(entry, dict) else {} for name, entry in contents.items()}
    partly = {name for name, entry in stated.items() if "sampled_crc32" in entry}
    there = set(_others(folder))
    found = checksums(folder, there & stated.keys(), partly)
    problems += [f"{name} is gone" for name in sorted(stated.keys() - there)]
    problems += [f"{name} appeared" for name in sorted(there - stated.keys())]
    problems += [f"{name} changed" for name in sorted(found) if found[name] != stated[name]]
    unchecked = [f"{name} was linked: only samples of it were compared" for name in sorted(partly & found.keys())]
    # No result is written with such a folder; `hf download` makes a .cache, importing a model's code a __pycache__.
    unchecked += [f"{name}/ appeared: what lies in it was not looked at" for name in bookkeeping_folders(folder)]
    return RecordCheck(tuple(problems), tuple(unchecked), sum(found[name] == stated[name] for name in found))


CONTENTS = "contents"
_DIGEST = "record_sha256"
_BLANK = "0" * 64


def _others(folder: Path) -> list[str]:
    return [name for name in list_files(folder) if name != RECORD]


def _digest(raw: bytes) -> bytes:
    """Of the record with zeros for the digest, in hexadecimal."""
    return hashlib.sha256(raw).hexdigest().encode()


def _is_sealed(raw: bytes) -> bool:
    mark = f'"{_DIGEST}": "'.encode()
    place = raw.rfind(mark) + len(mark)
    if place < len(mark):
        return False
    stop = place + len(_BLANK)
    return raw[place:stop] == _digest(raw[:place] + _BLANK.encode() + raw[stop:])


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
