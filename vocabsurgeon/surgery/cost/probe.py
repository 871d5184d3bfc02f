"""`Probe`: the text that a model is run on, the package's own or a file of the user's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from vocabsurgeon.errors import UsageError

MOST_BYTES = 1 << 20
"""How much of a file is read: far more than a run takes."""
_PROMPTS = (
    "The capital of France is a city that many people visit because",
    "Am nächsten Morgen ging der alte Mann langsam zum Hafen und",
    "def mean(values):\n    total = sum(values)\n    return",
)
_BUILTIN, _BETWEEN = "probe_text.txt", "\n%%\n"
"""Text written for this package, and the line between its passages."""


@dataclass(frozen=True)
class Probe:
    """Passages to measure on, and the beginnings that are continued."""

    passages: tuple[str, ...]
    prompts: tuple[str, ...]
    source: str
    """What reports call it: `built-in sample`, or the file."""

    @classmethod
    def builtin(cls) -> Probe:
        """Some thirty passages in 17 languages, code and numbers."""
        text = files("vocabsurgeon.surgery.cost").joinpath(_BUILTIN).read_text("utf-8")
        return cls(tuple(text.strip().split(_BETWEEN)), _PROMPTS, "built-in sample")

    @classmethod
    def read(cls, path: Path | str) -> Probe:
        """The passages of a UTF-8 text file: its paragraphs where it has blank lines, else its lines.

        Of a large file the first megabyte is read. Raises `UsageError` where it cannot be read or holds no text.
        """
        text = _text(Path(path))
        parts = (
            re.split(r"\n[ \t\r]*\n", text) if re.search(r"\S[ \t\r]*\n[ \t\r]*\n\s*\S", text) else text.splitlines()
        )
        passages = tuple(part.strip("\r\n") for part in parts if part.strip())
        if not passages:
            raise UsageError("holds no text to measure on", where=path)
        return cls(passages, passages[: len(_PROMPTS)], str(path))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot be read: {reason}", where=path) from error
    if len(data) > MOST_BYTES:
        data = data[: data.rfind(b"\n", 0, MOST_BYTES) + 1] or data[:MOST_BYTES]
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(data) == MOST_BYTES and error.start > MOST_BYTES - 4:
            return data[: error.start].decode("utf-8-sig")
        raise UsageError("is not UTF-8 text", where=path) from error
