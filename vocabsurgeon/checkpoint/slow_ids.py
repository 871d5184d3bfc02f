"""`slow_ids`: the ids of a tokenizer without a tokenizer.json, as its class counts them. Reads files only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.sentencepiece import piece_texts
from vocabsurgeon.checkpoint.slow_classes import (
    OF_NO_CLASS,
    SENTENCEPIECE_FILES,
    SLOW_CLASSES,
    CountedTail,
    SlowClass,
    Tail,
)
from vocabsurgeon.checkpoint.special_tokens import ADDITIONAL, EXTRA, ROLES, content_of, listed_contents
from vocabsurgeon.checkpoint.vocabulary_files import Folder, plain_vocabulary

_TIKTOKEN = re.compile(rb"[A-Za-z0-9+/]+=* \d+\r?\n")
_ORDER = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""`SPECIAL_TOKENS_ATTRIBUTES` of transformers 5.24: the order in which tokens without an id get one."""


@dataclass(frozen=True)
class SlowIds:
    """Token → id. `by_class`: the contents that no file states, and `name` the class that gives them their ids.

    `vocabulary` is the model's own; `appended` are the tokens with a role and others that come behind it.
    """

    vocabulary: Mapping[str, int]
    appended: Mapping[str, int]
    by_class: tuple[str, ...] = ()
    name: str | None = None
    before: str | None = None
    """What an earlier version of the class does otherwise."""


@dataclass(frozen=True)
class Unmeasured:
    """Why the ids are not known."""

    reason: str


def slow_ids(folder: Folder, settings: Mapping[str, Any], stated: Mapping[str, int]) -> SlowIds | Unmeasured | None:
    """The ids of the tokenizer in `folder`; None where it has no file of a slow tokenizer.

    `settings`: what its JSON files say (`merged_settings`); `stated`: content → id of the added tokens that they list.
    A class that no row knows may shift the ids of a SentencePiece file, so those are not guessed.
    """
    present = [name for name in SENTENCEPIECE_FILES if folder.has(name)]
    name = _class_name(settings)
    row = _row(folder, name)
    if row is None and present:
        return Unmeasured(f"{name} decides by code what ids the pieces of {present[0]} get")
    file = None if row is None else _file(row, folder)
    if row is None or (file is None and not present):
        vocabulary = plain_vocabulary(folder)
        return None if vocabulary is None else SlowIds(vocabulary, {})
    if file is None:
        return Unmeasured(f"{name or row.names[0]} does not read {present[0]}")
    entries = _entries(folder, file)
    return None if entries is None else _counted(row, name or row.names[0], entries, settings, stated)


def _class_name(settings: Mapping[str, Any]) -> str | None:
    name = settings.get("tokenizer_class")
    if not isinstance(name, str):
        return None
    return name if name == "PreTrainedTokenizerFast" else name.removesuffix("Fast")


def _row(folder: Folder, name: str | None) -> SlowClass | None:
    """The row of the class that readers take; None where no row knows it, or code of the checkpoint's own decides."""
    config = _config(folder)
    model_type = config.get("model_type")
    name = name or _class_name(config)
    if name is None:
        return next((row for row in SLOW_CLASSES if model_type in row.model_types), OF_NO_CLASS)
    return next((row for row in SLOW_CLASSES if name in row.names), None)


def _config(folder: Folder) -> Mapping[str, Any]:
    return JsonText.parse(folder.read_bytes("config.json"), "config.json").value if folder.has("config.json") else {}


def _file(row: SlowClass, folder: Folder) -> str | None:
    """The file that the class reads; transformers 5.24 takes tokenizer.model in the place of any other."""
    return next((name for name in (*row.files, "tokenizer.model") if folder.has(name)), None)


def _entries(folder: Folder, file: str) -> Sequence[str] | Mapping[str, int] | None:
    """The entries of `file` in order, or with the ids that it gives them; None where it is no SentencePiece model."""
    raw = folder.read_bytes(file)
    if file in SENTENCEPIECE_FILES:
        return None if _TIKTOKEN.match(raw) else piece_texts(raw, file)
    if file == "dict.txt":  # a fairseq dictionary: an entry and its count a line
        return [line.split()[0] for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
    return plain_vocabulary(folder, file)


def _counted(
    row: SlowClass,
    name: str,
    entries: Sequence[str] | Mapping[str, int],
    settings: Mapping[str, Any],
    stated: Mapping[str, int],
) -> SlowIds | Unmeasured:
    head = list(_texts(row.head, row, settings))
    tail = list(_texts(row.tail, row, settings))
    if isinstance(entries, Mapping):
        size = max(entries.values(), default=-1) + 1
        new = (token for token in tail if token not in entries)
        vocabulary = {**entries, **{token: size + place for place, token in enumerate(new)}}
    else:
        vocabulary = _numbered((*head, *entries[row.skip :], *tail), row)
        size = max(vocabulary.values(), default=-1) + 1
    known = vocabulary.keys() | stated.keys()
    behind = [token for token in dict.fromkeys(_behind(row, settings)) if token not in known]
    if behind and not row.appends:
        return Unmeasured(f"{name} decides by code what id {behind[0]!r} gets")
    upcoming = max(size, *(number + 1 for number in stated.values()), 0)
    appended = {token: upcoming + place for place, token in enumerate(behind)}
    held = set(entries)
    by_class = (*(token for token in vocabulary if token not in held), *behind)
    return SlowIds(vocabulary, appended, by_class, name, None if row.unless in stated else row.before)


def _numbered(texts: Iterable[str], row: SlowClass) -> dict[str, int]:
    listed = list(dict.fromkeys(texts)) if row.repeats == "first" else list(texts)
    return {text: number for number, text in enumerate(listed)}


def _behind(row: SlowClass, settings: Mapping[str, Any]) -> Iterator[str]:
    """The tokens that readers append where they have no id: roles, named tokens of the settings, listed ones."""
    for role in _ORDER:
        yield from _role(role, row, settings)
    yield from row.named
    for key, value in settings.items():
        if key.endswith("_token") and key.removesuffix("_token") not in ROLES and isinstance(value, str):
            yield value
    listed = listed_contents(settings.get(EXTRA) or settings.get(ADDITIONAL))
    yield from listed or _texts(row.extras, row, settings)


def _role(role: str, row: SlowClass, settings: Mapping[str, Any]) -> Iterator[str]:
    key = "mask_token_sent" if role == "mask_sent" else f"{role}_token"
    content = content_of(settings[key]) if key in settings else row.roles.get(role)
    if content is not None:
        yield content


def _texts(parts: Iterable[Tail], row: SlowClass, settings: Mapping[str, Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield from _role(part[1:-1], row, settings) if part.startswith("{") else (part,)
        elif isinstance(part, CountedTail):
            yield from _sentinels(part, settings)
        else:
            chosen = settings.get(part.setting) or part.default
            yield from _texts(part.lists.get(str(chosen), ()), row, settings)


def _sentinels(part: CountedTail, settings: Mapping[str, Any]) -> list[str]:
    count = settings.get(part.setting) if part.setting else None
    stop = count if type(count) is int and 0 <= count <= _MOST_SENTINELS else part.default
    texts = [part.text.format(number) for number in range(part.first, stop)]
    return texts[::-1] if part.descending else texts


_MOST_SENTINELS = 1 << 16
