"""Why an export has no cache, in the words of its notes."""

from __future__ import annotations

_WITHOUT = "exported without a cache: "
STATEFUL = f"{_WITHOUT}the model keeps states in a form of its own"
CACHELESS = f"{_WITHOUT}the model keeps none"
PREFIXED = f"{_WITHOUT}the model keeps other tokens than the text's (a prompt of its own)"


def without_cache(reason: str) -> str:
    """What went wrong with one."""
    return f"{_WITHOUT}with one, {reason}"
