"""From option texts (`TOKEN=text`, `OLD=NEW`, a tokens file) to an `ExtendRequest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.extend import ExtendRequest
from vocabsurgeon.surgery.tokens import TokenRequest
from vocabsurgeon.surgery.tokens.file import parse_pair, parse_role, read_requests


def extend_request(
    tokens: Sequence[str] = (),
    tokens_file: str | Path | None = None,
    *,
    special: bool = True,
    init: str = "subword-mean",
    describe: Sequence[str] = (),
    roles: Sequence[str] = (),
    replaces: Sequence[str] = (),
    promote: bool = False,
    chat_template: str | None = None,
    pad_to_multiple_of: int | None = None,
    seed: int = 0,
    side: str | None = None,
    keep_size: Sequence[str] = (),
) -> ExtendRequest:
    """The request that these options make together.

    A `describe` or `replaces` entry may name a token of `tokens` or of the file; `replaces` also brings its own. What
    is said twice in the same way counts once.
    Raises `UsageError` for an entry that is no pair, names no requested token, or contradicts the file.
    """
    requests = [TokenRequest(token, special=special) for token in tokens]
    if tokens_file is not None:
        requests += read_requests(Path(tokens_file), special=special)
    requests = _replacing(requests, _replacements(replaces), special)
    named = {item.content for item in requests}
    texts = _once([parse_pair(text, "--describe", named) for text in describe], "--describe", "is described twice")
    requests = _described(requests, texts)
    given = _once([parse_role(text) for text in roles], "--role", "is given to two tokens")
    holders = {**_named_roles(requests), **given}
    if seed < 0:
        raise UsageError(f"cannot be {seed}", where="--seed", hint="give 0 or more")
    return ExtendRequest(
        tuple(requests),
        init,
        tuple(holders.items()),
        pad_to_multiple_of,
        seed,
        chat_template,
        promote,
        side,
        tuple(keep_size),
    )


def _once(pairs: Sequence[tuple[str, str]], option: str, problem: str) -> dict[str, str]:
    """The pairs as a dictionary; raises `UsageError` where one would overwrite another."""
    for name, text in pairs:
        if any(other == name and more != text for other, more in pairs):
            raise UsageError(f"{name!r} {problem}", where=option)
    return dict(pairs)


def _replacements(replaces: Sequence[str]) -> dict[str, str]:
    """New token → old one."""
    pairs = [(new, old) for old, new in (parse_pair(text, "--replace") for text in replaces)]
    return _once(pairs, "--replace", "is to replace two tokens")


def _replacing(requests: Sequence[TokenRequest], wanted: Mapping[str, str], special: bool) -> list[TokenRequest]:
    for item in requests:
        if item.replaces is not None and wanted.get(item.content, item.replaces) != item.replaces:
            raise UsageError(f"{item.content!r} is to replace {item.replaces!r} by the file", where="--replace")
    named = {item.content for item in requests}
    own = [TokenRequest(new, special=special, replaces=old) for new, old in wanted.items() if new not in named]
    return [replace(item, replaces=wanted.get(item.content, item.replaces)) for item in requests] + own


def _described(requests: list[TokenRequest], texts: Mapping[str, str]) -> list[TokenRequest]:
    unknown = texts.keys() - {item.content for item in requests}
    if unknown:
        raise UsageError(
            f"describes {min(unknown)!r}, which is not added", where="--describe", hint="add it with --token"
        )
    for item in requests:
        if item.describe is not None and texts.get(item.content, item.describe) != item.describe:
            raise UsageError(f"{item.content!r} is described otherwise by the file", where="--describe")
    return [replace(item, describe=texts.get(item.content, item.describe)) for item in requests]


def _named_roles(requests: Sequence[TokenRequest]) -> dict[str, str]:
    return {item.role: item.content for item in requests if item.role}
