"""`TokenRefusal`: the answer "no" to a request for tokens, as a value with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenRefusal:
    """Why not, about which token, what shows it, and what to do instead."""

    reason: str
    token: str | None = None
    evidence: tuple[str, ...] = ()
    hint: str | None = None
