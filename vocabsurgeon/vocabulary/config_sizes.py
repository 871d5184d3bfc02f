"""Whether a number is something else in config.json too, so that an axis of that length need not be the vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.vocabulary.families import Family

_VOCABULARY = re.compile(r"vocab(?!_size_per_layer)|n_words|n_tokens?$|(^|_)(ids?|index|token_i(d|ndex).*)$")
"""Keys of numbers that are the size itself, or ids. Gemma 3n's layers have tables of a size of their own."""
_WIDTH = re.compile(r"size|dim|width|inner|embd|d_model|d_ff|ffn|rank")
"""Keys of widths."""
_FUSED = (2, 3, 4)
"""Gate beside up, queries beside keys and values, and feed-forward layers are such multiples of a width."""
_HEADS = re.compile(r"head|d_kv|kv_channels")
"""Keys of a number of heads, or of a head's width: their products are widths."""
_TIMES = re.compile(r"expand|ratio|multiplier|group|factor")
"""Keys of what a width is multiplied with."""


def collides(config: Config, family: Family | None, size: int) -> bool:
    """Whether `size` is a number of any level of `config`, a usual multiple of one, or so many heads of a width."""
    own = set(family.size_keys) if family else set()
    stated = [(key, number) for level in config.levels.values() for key, number in _numbers(level) if key not in own]
    widths, heads, times = (
        {number for key, number in stated if pattern.search(key)} for pattern in (_WIDTH, _HEADS, _TIMES)
    )
    if any(size == number for _, number in stated) or any(size == width * n for width in widths for n in _FUSED):
        return True
    products = ((heads, heads), (times, widths))
    return any(size == first * second for some, others in products for first in some for second in others)


def _numbers(level: object) -> Iterator[tuple[str, int]]:
    """Each whole number of a level under its key, those in lists too."""
    for key, value in level.items() if isinstance(level, dict) else ():
        if _VOCABULARY.search(key):
            continue
        for number in value if isinstance(value, list) else (value,):
            if type(number) is int and number > 0:
                yield key, number
