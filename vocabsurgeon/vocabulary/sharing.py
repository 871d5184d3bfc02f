"""Which keys of a checkpoint are one parameter: always, and where the tables are tied. Names only; no values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from vocabsurgeon.vocabulary.families import Family

Groups = tuple[tuple[str, ...], ...]
"""Keys of one parameter each, stored or not."""


@dataclass(frozen=True)
class Sharing:
    """Groups of keys, in this checkpoint's spelling, that the class loads as one parameter."""

    always: Groups
    if_tied: Groups
    """With the pair of input embedding and LM head; holds every group of `always`."""

    def groups(self, tied: bool) -> Groups:
        """The groups under a tie flag."""
        return self.if_tied if tied else self.always

    def with_head(self, output: str | None) -> tuple[str, ...]:
        """The group of the LM head where the tables are tied; empty where it is alone."""
        return next((group for group in self.if_tied if output in group), ())

    def under(self, name_of: Callable[[str], str]) -> Sharing:
        """The same groups with every key called what `name_of` gives."""
        always, if_tied = (
            tuple(tuple(map(name_of, group)) for group in groups) for groups in (self.always, self.if_tied)
        )
        return Sharing(always, if_tied)

    def untied_copies(
        self, stored: Collection[str], partner: str | None = None, output: str | None = None
    ) -> tuple[tuple[str, str], ...]:
        """(key, stored key to copy) of what must be stored too once the tables are no longer tied.

        Where several of a group are stored, `partner` (the input side's table) is copied; the LM head `output` only
        where nothing else is stored: it may be a table of its own.
        """
        return tuple(
            (part[0], held[0])
            for group in self.if_tied
            if (
                held := sorted((key for key in group if key in stored), key=lambda key: (key != partner, key == output))
            )
            for part in _parts(group, self.always)
            if not set(part) & set(held)
        )


def sharing_of(
    family: Family | None,
    spelled: Callable[[str], str],
    input_key: str,
    output_key: str | None,
    *,
    named: bool = False,
    apart: bool = False,
) -> Sharing:
    """The groups of a class; `spelled` turns a key of the families table into this checkpoint's spelling.

    Where the table does not know the type, or the user named the keys: input embedding and LM head are one if tied.
    `apart` is for an encoder-decoder model with two vocabularies: the encoder's table and a common one are in no group.
    """
    pair = (input_key, output_key) if output_key else ()
    if family is None or named:
        return Sharing((), (pair,) if pair else ())
    always = tuple(_spelled(_kept(group, apart), spelled) for group in family.shared)
    if_tied = [_spelled(_kept(group, apart), spelled) for group in family.shared_if_tied]
    ties = family.tie_level not in ("", "never")
    if pair and ties and not any(output_key in group for group in (*if_tied, *always)):
        if_tied.append(pair)
    return Sharing(always, (*if_tied, *(group for group in always if not _within(group, if_tied))))


def _kept(group: Iterable[str], apart: bool) -> Iterable[str]:
    return (key for key in group if not (apart and _ENCODERS.search(key)))


_ENCODERS = re.compile(r"(^|\.)(encoder|shared)\.")


def _spelled(group: Iterable[str], spelled: Callable[[str], str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(spelled, group)))


def _within(group: Iterable[str], groups: Iterable[tuple[str, ...]]) -> bool:
    return any(set(group) <= set(other) for other in groups)


def _parts(group: tuple[str, ...], always: Groups) -> Iterator[tuple[str, ...]]:
    """What `group` falls into when only `always` still holds."""
    left = list(group)
    while left:
        part = next((tuple(key for key in other if key in left) for other in always if left[0] in other), (left[0],))
        yield part
        left = [key for key in left if key not in part]
