"""Whether a number is something else in config.json too, so that an axis of that length need not be the vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.vocabulary.families import Family

_VOCABULARY = re.compile(r"vocab|n_words|n_tokens?$|(^|_)(ids?|index|token_i(d|ndex).*)$")
"""Keys of numbers that are the size itself, or ids."""
_PARTS = re.compile(r"head|group|expert|codebook|latent|kernel|patch|expand|ratio|multiplier|channels")
"""Keys of numbers that widths are multiplied with (heads of so many dimensions each)."""
_WIDTH = re.compile(r"size|dim|width|inner|embd|d_model|d_ff|ffn|rank")
"""Keys of widths."""
_FUSED = (2, 3, 4)
"""Gate beside up, queries beside keys and values, and feed-forward layers are such multiples of a width."""


def collides(config: Config, family: Family | None, size: int) -> bool:
    """Whether `size` is a number of any level of `config`, a usual multiple of one, or so many heads of a width."""
    own = set(family.size_keys) if family else set()
    stated = [(key, number) for level in config.levels.values() for key, number in _numbers(level) if key not in own]
    numbers = {number for _, number in stated}
    widths = {number for key, number in stated if _WIDTH.search(key)}
    if size in numbers or any(width * multiple == size for width in widths for multiple in _FUSED):
        return True
    parts = {number for key, number in stated if number > 1 and _PARTS.search(key)}
    return any(size % part == 0 and size // part in numbers for part in parts)


def _numbers(level: object) -> Iterator[tuple[str, int]]:
    """Each whole number of a level under its key, those in lists too."""
    for key, value in level.items() if isinstance(level, dict) else ():
        if _VOCABULARY.search(key):
            continue
        for number in value if isinstance(value, list) else (value,):
            if type(number) is int and number > 0:
                yield key, number
