"""Result objects as JSON text: one object, one line, valid JSON (no NaN), any Unicode escaped only where UTF-8 cannot hold it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumps(document: Mapping[str, Any]) -> str:
    """The document as JSON, two-space indented; lone surrogates (from file names) stay escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
