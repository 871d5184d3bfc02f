"""The promise about files that no plan speaks for: what decided ids, roles and the model before, decides them still."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from vocabsurgeon.checkpoint.compare import files_equal
from vocabsurgeon.checkpoint.config import CONFIG as MODEL_CONFIG
from vocabsurgeon.checkpoint.config import TIE_FLAG
from vocabsurgeon.checkpoint.folder import bookkeeping_folders
from vocabsurgeon.checkpoint.json_changes import Path
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict
from vocabsurgeon.surgery.promises.written_files import json_differences, parse_json

_FAST, _CONFIG, _SPECIAL, _GENERATION = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
)


@dataclass(frozen=True)
class MeaningKept(Promise):
    """What decides ids of old text, roles and special tokens says what it said; new tokens may come on top.

    For a result without a record. Every other difference in a file that holds no weights is named, and counts as not
    checked: nobody says whether it was meant.
    """

    name: ClassVar[str] = "meaning_kept"

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Compares tokenizer, generation and model config as parsed data, every other file as bytes."""
        broken: list[str] = []
        unknown: list[str] = []
        for name, rule in _RULES.items():
            if not before.has(name):
                continue
            if not after.has(name):
                (broken if name == _CONFIG else unknown).append(f"{name} is gone")
                continue
            try:
                old, new = parse_json(before.read_bytes(name)), parse_json(after.read_bytes(name))
            except (ValueError, RecursionError) as error:
                broken.append(f"{name} cannot be compared: {error}")
                continue
            for told, decides in rule(old, new):
                (broken if decides else unknown).append(f"{name}: {told}")
        unknown += _other_files(before, after)
        if broken:
            return Verdict(False, tuple(broken[:20]))
        if unknown:
            return Verdict(None, ("not known whether this was meant:", *unknown[:20]))
        return Verdict(True, ("every file that holds no weights says what it said",))


Told = Iterator[tuple[str, bool]]
"""(A difference in words, whether it changes what old text or an old role means)."""


def _fast(old: Any, new: Any) -> Told:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return
    for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        yield from ((told, True) for told in json_differences(old.get(key), new.get(key), (key,)))
    for key in ("truncation", "padding"):
        switched_on = old.get(key) is None and new.get(key) is not None
        yield from ((told, switched_on) for told in json_differences(old.get(key), new.get(key), (key,)))
    yield from _model(_mapping(old, "model"), _mapping(new, "model"))
    entries = {entry.get("content"): entry for entry in new.get("added_tokens") or () if isinstance(entry, dict)}
    yield from _entries({entry.get("content"): entry for entry in old.get("added_tokens") or ()}, entries)


def _model(old: Mapping[str, Any], new: Mapping[str, Any]) -> Told:
    for key in dict.fromkeys((*old, *new)):
        if key == "vocab":
            continue
        before, after = (_pairs(side.get(key)) if key == "merges" else side.get(key) for side in (old, new))
        if before != after:
            yield f"model.{key} changed", key in old or after is not None
    first, second = old.get("vocab"), new.get("vocab")
    if isinstance(first, list) and isinstance(second, list) and second[: len(first)] != first:
        yield "model.vocab: an old piece or its score changed", True


def _pairs(merges: Any) -> Any:
    """Merges as pairs: they stand as texts in files of tokenizers before 0.20."""
    if not isinstance(merges, list):
        return merges
    return [tuple(entry.split(" ", 1)) if isinstance(entry, str) else tuple(entry) for entry in merges]


def _entries(old: Mapping[Any, Any], new: Mapping[Any, Any], path: Path = ("added_tokens",)) -> Told:
    for key, entry in old.items():
        if key not in new:
            yield f"{path[0]}: {key!r} is gone", True
        else:
            yield from ((told, True) for told in json_differences(entry, new[key], (*path, str(key))))


def _settings(decisive: Callable[[str], bool]) -> Callable[[Any, Any], Told]:
    """The rule of a file of settings: those whose key is `decisive` count."""

    def rule(old: Any, new: Any) -> Told:
        if not (isinstance(old, dict) and isinstance(new, dict)):
            return
        for key in dict.fromkeys((*old, *new)):
            if key == "added_tokens_decoder" and isinstance(old.get(key), dict):
                yield from _entries(old[key], _mapping(new, key), (key,))
            elif key not in _NO_MEANING and _content(old.get(key)) != _content(new.get(key)):
                told = f"{key} is {_content(new.get(key))!r:.80}, was {_content(old.get(key))!r:.80}"
                yield told, decisive(key) and key in old and old[key] is not None

    return rule


def _model_config(old: Any, new: Any) -> Told:
    """Sizes and the tie flag are for the promises about rows and the tie state."""
    for told in json_differences(old, new):
        key = told.partition(" ")[0].rpartition(".")[2]
        if key in _NO_MEANING or key == TIE_FLAG or _SIZE.search(key):
            continue
        yield told, key.endswith(("_token_id", "_token_ids")) and not told.endswith("appeared")


def _other_files(before: Checkpoint, after: Checkpoint) -> list[str]:
    skipped = {*_RULES, *before.shards.files, *after.shards.files, RECORD}
    old, new = set(before.files) - skipped, set(after.files) - skipped
    both = (name for name in sorted(old & new) if not files_equal(before.path(name), after.path(name)))
    return [
        *(f"{name} is gone" for name in sorted(old - new)),
        *(f"{name} appeared" for name in sorted(new - old)),
        *(f"{name} changed" for name in both),
        *(f"{name}/ was not looked at" for name in bookkeeping_folders(after.root)),
    ]


_NO_MEANING = {"transformers_version", "_name_or_path", "is_local", "local_files_only"}
"""What transformers writes about itself and the place that a file was read from (seen on 4.57 and 5.24)."""
_SIZE = re.compile("vocab_size|n_vocab|n_words")


def _content(value: Any) -> Any:
    """A special token's text, whether it stands as text or as an object."""
    return value["content"] if isinstance(value, dict) and isinstance(value.get("content"), str) else value


def _mapping(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    held = holder.get(key)
    return held if isinstance(held, dict) else {}


_RULES: Mapping[str, Callable[[Any, Any], Told]] = {
    _FAST: _fast,
    _CONFIG: _settings(lambda key: key.endswith("_token")),
    _SPECIAL: _settings(lambda key: key.endswith("_token")),
    _GENERATION: _settings(lambda key: key.endswith(("_token_id", "_token_ids"))),
    MODEL_CONFIG: _model_config,
}
