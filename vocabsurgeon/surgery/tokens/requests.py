"""What the user asks for, token by token, and the rules a token's text must keep whatever the tokenizer is."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields

from vocabsurgeon.errors import UsageError

LONGEST = 512
"""Characters. The longest special tokens in published tokenizers have about 60; more is a pasted text, not a token."""
_BROKEN = {
    "Cc": "a control character",
    "Cs": "half a surrogate pair",
    "Zl": "a line separator",
    "Zp": "a line separator",
}
_INVISIBLE = ("Cf", "Zs", "Mn")


@dataclass(frozen=True)
class TokenRequest:
    """One token to have. The flags are those of an added token of the tokenizers library.

    `describe`: text whose pieces initialize the row, in place of `content`. `init`: name of a row initializer, None for
    the run's. `role`: `eos`, `pad`, … to give to the token. `replaces`: the token whose id it takes over.
    """

    content: str
    special: bool = True
    describe: str | None = None
    init: str | None = None
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    role: str | None = None
    replaces: str | None = None


def distinct_requests(requests: Sequence[TokenRequest]) -> tuple[TokenRequest, ...]:
    """`requests` in order, identical ones collapsed into the first.

    Raises `UsageError`, naming the token, where a text cannot be a token, two requests for one token differ, or two get
    in each other's way.
    """
    kept: dict[str, TokenRequest] = {}
    for request in requests:
        check_content(request.content)
        first = kept.setdefault(request.content, request)
        if first != request:
            raise UsageError(
                f"is requested twice, with different {_difference(first, request)}", where=_shown(request.content)
            )
    replaced: dict[str, str] = {}
    for request in kept.values():
        if request.replaces is None:
            continue
        if replaced.setdefault(request.replaces, request.content) != request.content:
            raise UsageError("is to be replaced twice", where=_shown(request.replaces))
        if request.replaces in kept:
            raise UsageError("is to be replaced and is requested itself", where=_shown(request.replaces))
    return tuple(kept.values())


def _difference(first: TokenRequest, second: TokenRequest) -> str:
    names = [item.name for item in fields(TokenRequest) if getattr(first, item.name) != getattr(second, item.name)]
    shown = ((name, getattr(first, name), getattr(second, name)) for name in names)
    return ", ".join(f"{name} ({_value(one)}, {_value(other)})" for name, one, other in shown)


def _value(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def check_content(content: str) -> None:
    """Raises `UsageError` where `content` can be no token: empty, invisible, too long, with control characters."""
    where = _shown(content)
    if not content:
        raise UsageError("a token cannot be empty", where="''")
    if len(content) > LONGEST:
        raise UsageError(f"is {len(content)} characters long, a token has {LONGEST} at most", where=where)
    for character in content:
        broken = _BROKEN.get(unicodedata.category(character))
        if broken:
            raise UsageError(f"holds {broken} ({character!a})", where=where)
    if content.isspace():
        raise UsageError("a token cannot be white space alone", where=where)
    if all(unicodedata.category(character) in _INVISIBLE for character in content):
        raise UsageError("a token cannot be made of invisible characters alone", where=where)


def _shown(content: str) -> str:
    shown = content if len(content) <= 60 else content[:57] + "..."
    return f"token {ascii(shown) if any(0xD800 <= ord(c) <= 0xDFFF for c in shown) else repr(shown)}"
