"""Roles as ids, in config.json at every level and generation_config.json. Their tokens are `tokenizer_edits`' part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vocabsurgeon.checkpoint.config import Config, Path
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.surgery.tokens.assignment import Assignment

GENERATION = "generation_config.json"
_ADDED_WHERE_ABSENT = ("bos", "eos", "pad", "sep")
"""Roles whose id every transformers configuration knows; the id of another role is written only where it stands."""


def role_config_values(config: Config, assignment: Assignment) -> dict[Path, Any]:
    """Path → value for config.json: the id at each level that states one, and at the root where none does.

    A list (several ids that end a text) is appended to. Values that are right already are left out.
    """
    values: dict[Path, Any] = {}
    for role, number in assignment.role_ids.items():
        key = f"{role}_token_id"
        carriers = [path for path, level in config.levels.items() if level.get(key) is not None]
        if not carriers and role in _ADDED_WHERE_ABSENT:
            carriers = [()]
        for path in carriers:
            value = _with(config.levels[path].get(key), number)
            if value != config.levels[path].get(key):
                values[(*path, key)] = value
    return values


def generation_config(document: JsonText, role_ids: Mapping[str, int]) -> JsonText:
    """generation_config.json with the ids of the roles; a list is appended to. Raises `ConfigError`."""
    for role, number in role_ids.items():
        key = f"{role}_token_id"
        held = document.read((key,))
        if isinstance(held, list):
            document = document.extend((key,), [] if number in held else [number])
        elif held != number and (held is not None or role in _ADDED_WHERE_ABSENT[:3]):
            document = document.set((key,), number)
    return document


def _with(held: Any, number: int) -> Any:
    if isinstance(held, list):
        return held if number in held else [*held, number]
    return number
