"""Result objects as JSON text: one object, no NaN, Unicode escaped only where the output cannot hold it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumps(document: Mapping[str, Any], encoding: str | None = "utf-8") -> str:
    """The document as JSON, two-space indented; what `encoding` cannot hold, and lone surrogates, are escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return json.dumps(document, indent=2, allow_nan=False)
    return text
