"""`TokenizerFiles`: the tokenizer of a checkpoint as data. Reads files only; nothing here tokenizes or writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from vocabsurgeon.checkpoint.added_tokens import ADDED, AddedToken, added_tokens, counted_ids, reading_orders
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.slow_ids import SlowIds, Unmeasured, slow_ids
from vocabsurgeon.checkpoint.special_tokens import CONFIG, SPECIAL_MAP, Specials, merged_settings, read_specials
from vocabsurgeon.checkpoint.vocabulary_files import FAST, SLOW, Folder, fast_vocabulary, model_size

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
    by_class: tuple[str, ...] = ()
    """The tokens whose ids no file states: the tokenizer's class fixes them."""
    class_name: str | None = None
    disputed: str | None = None
    """Why the ids by the class need not be those that the model was trained with."""

    @classmethod
    def read(cls, folder: Folder) -> TokenizerFiles | None:
        """The tokenizer files of `folder`; None where it has no tokenizer that can be read as data.

        Raises `ConfigError` or `TokenizerError` where a file is damaged.
        """
        return cls.with_fast(folder, folder.read_bytes(FAST)) if folder.has(FAST) else cls._slow(folder)

    @classmethod
    def with_fast(cls, folder: Folder, raw: bytes) -> TokenizerFiles:
        """As `read`, with `raw` as the content of tokenizer.json."""
        fast = JsonText.outline(raw, FAST)
        documents = {**_documents(folder), FAST: fast}
        return cls._of(folder, documents, fast_vocabulary(fast), *added_tokens(documents))

    @classmethod
    def _slow(cls, folder: Folder) -> TokenizerFiles | None:
        documents = _documents(folder)
        added, disagreements = added_tokens(documents)
        counted = slow_ids(folder, merged_settings(documents), {token.content: token.id for token in added})
        if counted is None or isinstance(counted, Unmeasured):
            return None
        appended = (AddedToken(number, content, special=True) for content, number in counted.appended.items())
        findings = (*disagreements, *_otherwise(counted, added))
        files = cls._of(folder, documents, counted.vocabulary, (*added, *appended), findings)
        disputed = counted.before and f"{counted.name} of transformers 4 {counted.before}; 5.24 does not"
        told = (*files.findings, disputed) if disputed else files.findings
        return replace(files, findings=told, by_class=counted.by_class, class_name=counted.name, disputed=disputed)

    @classmethod
    def _of(
        cls,
        folder: Folder,
        documents: dict[str, JsonText],
        vocabulary: Mapping[str, int],
        added: tuple[AddedToken, ...],
        disagreements: tuple[str, ...],
    ) -> TokenizerFiles:
        names = tuple(name for name in (FAST, *SMALL, *SLOW) if folder.has(name) or name in documents)
        specials = read_specials(documents)
        faults = (*_collisions(vocabulary, added), *_miscounts(documents, vocabulary, added))
        missing = _without_id(specials, vocabulary, added)
        return cls(
            names,
            MappingProxyType(documents),
            MappingProxyType(dict(vocabulary)),
            added,
            specials,
            (*disagreements, *faults, *missing),
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


def unmeasured(folder: Folder) -> str | None:
    """Why the ids of the tokenizer in `folder` are not known; None where they are, or where it has none."""
    if folder.has(FAST):
        return None
    documents = _documents(folder)
    counted = slow_ids(folder, merged_settings(documents), {})
    return counted.reason if isinstance(counted, Unmeasured) else None


def _documents(folder: Folder) -> dict[str, JsonText]:
    return {name: JsonText.parse(folder.read_bytes(name), name) for name in SMALL if folder.has(name)}


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


def _otherwise(counted: SlowIds, added: tuple[AddedToken, ...]) -> Iterator[str]:
    for token in added if counted.name else ():
        number = counted.vocabulary.get(token.content, token.id)
        if number != token.id:
            yield f"{token.content!r} has id {token.id} in the files, and {number} by the class {counted.name}"


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
    without = [content for content in specials.contents if content not in known and content not in vocabulary]
    if len(without) > _TOLD_APART:
        yield f"{len(without)} tokens, such as {without[0]!r}, are named as special but have no id; {_NEXT}"
        return
    for content in without:
        yield f"{content!r} is named as a special token but has no id; {_NEXT}"


_TOLD_APART = 5
_NEXT = "readers hand it the next free one"
