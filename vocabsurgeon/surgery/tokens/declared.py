"""Ids that config.json already gives a meaning: a new token must not take one by accident."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vocabsurgeon.checkpoint.config import CONFIG, Config, dotted
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.tokens.assignment import AssignedToken

_ID = re.compile(r"(?P<meaning>\w+?)_(token_id|token_ids|token_index|token)$")


def refuse_declared(config: Config, tokens: Sequence[AssignedToken], roles: Mapping[str, str]) -> Refusal | None:
    """The refusal to hand out an id that a config value names; None where the token is plainly the one meant.

    A token is meant where it is given that role (`roles`: role → content), or where its text holds the name: `<image>`
    for `image_token_index`.
    """
    declared = dict(_declared(config))
    for token in tokens:
        name = declared.get(token.id) if token.status == "added" else None
        if name is None or _is_meant(token.content, name, roles):
            continue
        return Refusal(
            "extend",
            f"{token.content!r} would get id {token.id}, which is {name} in {CONFIG}: it would be taken for that",
            (f"the tokenizer has no token with id {token.id}",),
            (f"add the token that {name} means first, or correct {CONFIG}",),
        )
    return None


def _declared(config: Config) -> Iterator[tuple[int, str]]:
    for path, level in config.levels.items():
        for key, value in level.items():
            if _ID.search(key):
                yield from ((number, dotted((*path, key))) for number in _numbers(value))


def _numbers(value: Any) -> Iterator[int]:
    for item in value if isinstance(value, list) else [value]:
        if type(item) is int and item >= 0:
            yield item


def _is_meant(content: str, name: str, roles: Mapping[str, str]) -> bool:
    found = _ID.search(name.rpartition(".")[2])
    meaning = found["meaning"] if found else ""
    words = [word for word in meaning.split("_") if len(word) > 2]
    return roles.get(meaning) == content or any(word in content.lower() for word in words)
