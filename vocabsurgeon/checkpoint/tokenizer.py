"""`TokenizerFiles`: the tokenizer of a checkpoint as data. Reads files only; nothing here tokenizes or writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from vocabsurgeon.checkpoint.added_tokens import ADDED, AddedToken, added_tokens, counted_ids, reading_orders
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.special_tokens import CONFIG, SPECIAL_MAP, Specials, read_specials
from vocabsurgeon.checkpoint.vocabulary_files import FAST, SLOW, Folder, fast_vocabulary, model_size, slow_vocabulary

SMALL = (CONFIG, SPECIAL_MAP, ADDED)
"""The files beside the vocabulary; any of them may be missing."""


@dataclass(frozen=True)
class TokenizerFiles:
    """Ids, added tokens and roles as the files state them. Mappings are read-only.

    `vocabulary`: token → id of the model; `added`: the added tokens, by id; `specials`: roles and listed special
    tokens; `documents`: the JSON files that are there. `findings` say where the files disagree, and `faults` are those
    findings that make new ids unsafe.
    """

    names: tuple[str, ...]
    documents: Mapping[str, JsonText]
    vocabulary: Mapping[str, int]
    added: tuple[AddedToken, ...]
    specials: Specials
    findings: tuple[str, ...]
    faults: tuple[str, ...]

    @classmethod
    def read(cls, folder: Folder) -> TokenizerFiles | None:
        """The tokenizer files of `folder`; None where it has no tokenizer that can be read as data.

        Raises `ConfigError` or `TokenizerError` where a file is damaged.
        """
        if not folder.has(FAST):
            vocabulary = slow_vocabulary(folder)
            return None if vocabulary is None else cls._of(folder, None, vocabulary)
        return cls.with_fast(folder, folder.read_bytes(FAST))

    @classmethod
    def with_fast(cls, folder: Folder, raw: bytes) -> TokenizerFiles:
        """As `read`, with `raw` as the content of tokenizer.json."""
        fast = JsonText.outline(raw, FAST)
        return cls._of(folder, fast, fast_vocabulary(fast))

    @classmethod
    def _of(cls, folder: Folder, fast: JsonText | None, vocabulary: dict[str, int]) -> TokenizerFiles:
        documents = {name: JsonText.parse(folder.read_bytes(name), name) for name in SMALL if folder.has(name)}
        if fast is not None:
            documents[FAST] = fast
        names = tuple(name for name in (FAST, *SMALL, *SLOW) if folder.has(name) or name in documents)
        added, disagreements = added_tokens(documents)
        specials = read_specials(documents)
        faults = (*_collisions(vocabulary, added), *_miscounts(documents, vocabulary, added))
        missing = _without_id(specials, vocabulary, added)
        findings = (*disagreements, *faults, *missing)
        return cls(
            names,
            MappingProxyType(documents),
            MappingProxyType(vocabulary),
            added,
            specials,
            findings,
            faults,
        )

    @property
    def slow_only(self) -> bool:
        """Whether there is no tokenizer.json."""
        return FAST not in self.documents

    @cached_property
    def sha256(self) -> str | None:
        """Of tokenizer.json, in hexadecimal; None where there is none."""
        return None if self.slow_only else hashlib.sha256(self.documents[FAST].raw).hexdigest()

    @cached_property
    def token_to_id(self) -> Mapping[str, int]:
        """Every token, the added ones included, and its id."""
        return MappingProxyType({**self.vocabulary, **{token.content: token.id for token in self.added}})

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The ids as half-open ranges, ascending."""
        ids = {*self.vocabulary.values(), *(token.id for token in self.added)}
        if self.model_type == "Unigram":  # a piece that occurs twice has two ids, of which `vocabulary` shows one
            ids |= set(range(model_size(self.documents[FAST], self.vocabulary)))
        return tuple(_ranges(sorted(ids)))

    @property
    def count(self) -> int:
        """How many ids there are."""
        return sum(stop - start for start, stop in self.ranges)

    @property
    def max_id(self) -> int:
        """The highest id; -1 where there are none."""
        return self.ranges[-1][1] - 1 if self.ranges else -1

    @cached_property
    def holes(self) -> tuple[int, ...]:
        """The numbers below the highest id that are no id."""
        starts = [0, *(stop for _, stop in self.ranges[:-1])] if self.ranges else []
        gaps = zip(starts, (start for start, _ in self.ranges), strict=True)
        return tuple(number for low, high in gaps for number in range(low, high))

    @property
    def roles(self) -> Mapping[str, str]:
        """Role (`eos`, `pad`, …) → content of its token."""
        return self.specials.roles

    @property
    def model_type(self) -> str | None:
        """`BPE`, `WordPiece`, `WordLevel` or `Unigram`; None where the file does not say."""
        kind = self._model("type")
        return kind if isinstance(kind, str) else None

    @property
    def unknown_id(self) -> int | None:
        """The id that stands for unknown text; None where the model has none."""
        number = self._model("unk_id")
        token = self._model("unk_token") or self.roles.get("unk")
        if isinstance(number, int):
            return number
        return self.token_to_id.get(token) if isinstance(token, str) else None

    def _model(self, key: str) -> Any:
        return None if self.slow_only else self.documents[FAST].read(("model", key))


def _ranges(ids: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for place, number in enumerate(ids):
        if place + 1 == len(ids) or ids[place + 1] != number + 1:
            yield ids[start], number + 1
            start = place + 1


def _collisions(vocabulary: Mapping[str, int], added: tuple[AddedToken, ...]) -> Iterator[str]:
    ids = {*vocabulary.values(), *(token.id for token in added)}
    if len(ids) == len(vocabulary.keys() | {token.content for token in added}):
        return
    held: dict[int, str] = {}
    for token, number in (*vocabulary.items(), *((token.content, token.id) for token in added)):
        if held.setdefault(number, token) != token:
            yield f"id {number} stands for both {held[number]!r} and {token!r}"


def _miscounts(
    documents: Mapping[str, JsonText], vocabulary: Mapping[str, int], added: tuple[AddedToken, ...]
) -> Iterator[str]:
    if FAST not in documents:
        return
    size = model_size(documents[FAST], vocabulary)
    for source, contents in reading_orders(documents).items():
        counted = counted_ids(vocabulary, size, contents)
        for token in added:
            ids = counted.get(token.content, {token.id})
            if ids != {token.id}:
                others = " or ".join(str(number) for number in sorted(ids - {token.id}))
                yield f"{token.content!r} has id {token.id}, but a reader of {source} alone counts {others}"


def _without_id(specials: Specials, vocabulary: Mapping[str, int], added: tuple[AddedToken, ...]) -> Iterator[str]:
    known = {token.content for token in added}
    for content in specials.contents:
        if content not in known and content not in vocabulary:
            yield f"{content!r} is named as a special token but has no id; readers hand it the next free one"
