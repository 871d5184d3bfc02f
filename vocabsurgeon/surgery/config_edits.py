"""Which config values an operation writes: the tie flag and the size at every level that carries them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vocabsurgeon.checkpoint.config import CONFIG, TIE_FLAG, Config, Path, dotted
from vocabsurgeon.checkpoint.edits import WriteFile
from vocabsurgeon.vocabulary.families import Family

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

    A nested level counts when it is the text model's or states the table's own size: other sub-models have
    vocabularies of their own.
    """
    keys = dict.fromkeys(names)
    if new != old and not any(config.numbers(key) for key in keys):
        return {(*_silent_level(config, family), next(iter(keys))): new}
    return {
        (*path, key): new
        for key in keys
        for path, stated in config.numbers(key).items()
        if stated != new and (not path or (stated == old and not _OTHER_SENSES.search(dotted(path))))
    }


_OTHER_SENSES = re.compile("vision|image|video|audio|speech|codec|talker|protein|qformer")
"""Sub-models whose vocabulary is another one, even where it has as many rows."""


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
    """`scale_decoder_outputs` at every T5-like level that leaves it to the tie flag, as the flag has it now.

    Such a class scales what goes into the head where the file's flag is not false; written out, no later flag moves
    the logits. (configuration_t5.py, _umt5, _longt5 and _pop2piano of transformers 5.24)
    """
    return {
        (*path, _SCALE): level.get(TIE_FLAG) is not False
        for path, level in config.levels.items()
        if level.get("model_type") in _SCALED and not isinstance(level.get(_SCALE), bool)
    }


_SCALE = "scale_decoder_outputs"
_SCALED = ("t5", "umt5", "longt5", "pop2piano")


def config_edit(config: Config, values: Values) -> tuple[WriteFile, ...]:
    """config.json with `values` written and every other byte kept; nothing where nothing changes."""
    if not values:
        return ()
    return (WriteFile(CONFIG, config.with_values(values).document.text.encode()),)
