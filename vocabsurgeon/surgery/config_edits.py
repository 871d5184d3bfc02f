"""Which config values an operation writes: the tie flag and the size at every level that carries them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vocabsurgeon.checkpoint.config import CONFIG, TIE_FLAG, Config, Path, dotted
from vocabsurgeon.checkpoint.edits import WriteFile
from vocabsurgeon.vocabulary.families import Family, family_for

Values = Mapping[Path, Any]
_SIZE = "vocab_size"
_TEXT: tuple[Path, ...] = (("text_config",), ("language_config",), ("llm_config",))


def tie_flag_values(config: Config, family: Family | None, value: bool) -> Values:
    """The flag where it is not `value` yet: at the root and each level that states it, has a vocabulary or is obeyed.

    Other names of the flag that the class reads are written where the root states them.
    """
    obeyed = {family.nested} & config.levels.keys() if family else set()
    carriers = {(), *config.flags(), *config.numbers(_SIZE), *obeyed}
    others = [key for key in (family.flag_keys if family else ()) if key != TIE_FLAG and key in config.data]
    places = [*((*path, TIE_FLAG) for path in sorted(carriers)), *((key,) for key in others)]
    return {path: value for path in places if config.levels[path[:-1]].get(path[-1]) is not value}


def size_values(config: Config, family: Family | None, names: Sequence[str], old: int, new: int) -> Values:
    """The size under `names` at every level that states it; where none does and it changes, where readers look for it.

    A nested level counts when it states the table's own size and the class does not read another vocabulary's there.
    """
    keys, elsewhere = dict.fromkeys(names), family.elsewhere if family else ()
    if new != old and not any(config.numbers(key) for key in keys):
        return {(*_silent_level(config, family), next(iter(keys))): new}
    return {
        (*path, key): new
        for key in keys
        for path, stated in config.numbers(key).items()
        if stated != new and (not path or (stated == old and path not in elsewhere))
    }


def other_sizes(config: Config, rows: int) -> Sequence[str]:
    """Config values of unknown names that may state the size, where none of a known name does."""
    if config.numbers(_SIZE):
        return ()
    return [
        f"{dotted((*path, key))} = {value}"
        for path, level in config.levels.items()
        for key, value in level.items()
        if type(value) is int and value == rows and _MAY_BE_SIZE.search(key)
    ]


_MAY_BE_SIZE = re.compile("vocab|token|words|symbols|embeddings")


def _silent_level(config: Config, family: Family | None) -> Path:
    """Where the size belongs in a config that leaves it to the class's default: the text config, else the root."""
    nested = (family.nested if family else ()) or next((path for path in _TEXT if path in config.levels), ())
    return nested if nested in config.levels else ()


def scale_values(config: Config) -> Values:
    """What a level leaves to the tie flag, as the flag has it now: written out, no later flag moves the logits.

    T5 and its kin scale what goes into the head by one (`scale_decoder_outputs`).
    """
    return {
        (*path, key): flag if isinstance(flag := level.get(TIE_FLAG), bool) else default
        for path, level in config.levels.items()
        for key, default in _following(level).items()
        if not isinstance(level.get(key), bool)
    }


def _following(level: Mapping[str, Any]) -> Mapping[str, bool]:
    model_type = level.get("model_type")
    family = family_for(model_type, None) if isinstance(model_type, str) else None
    return family.follow_flag if family else {}


def config_edit(config: Config, values: Values) -> tuple[WriteFile, ...]:
    """config.json with `values` written and every other byte kept; nothing where nothing changes."""
    if not values:
        return ()
    document = config.with_values(values).document
    return (WriteFile(CONFIG, document.raw, document.changes),)
