"""Which vocabulary tensors of a model class are one parameter, and which flag it obeys: asked by stating flags."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.config import TIE_FLAG, Path
from vocabsurgeon.vocabulary.families import family_from_row
from vocabsurgeon.vocabulary.model_class import ModelClass, Unknown

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SPELLINGS = ("tie_embedding", "tie_embeddings", "tie_weights", "tie_lm_head", "share_input_output_embeddings")
"""Other names under which a config.json may state the tie flag; asked of every config class."""

Groups = tuple[tuple[str, ...], ...]
Flags = Mapping[Path, bool]
"""What the levels state; a level that is missing is silent."""
Rule = Mapping[str, Any]
"""The part of a row of families.json that tells which flag counts."""


@dataclass(frozen=True)
class ClassTying:
    """Keys are those of the module tree."""

    rule: Rule
    shared: Groups
    """One parameter whatever the flags say."""
    shared_if_tied: Groups


def tying_of(subject: ModelClass, head: str | None, keys: Iterable[str], text: Path) -> ClassTying:
    """How `subject` ties the tensors `keys`; `text` is the config level that holds the size.

    Raises `Unknown` where no rule tells what was seen.
    """
    keys = tuple(keys)
    chain = [text[:depth] for depth in range(len(text) + 1)]
    apart, tied = (_groups(subject, dict.fromkeys(chain, flag), keys) for flag in (False, True))
    if head is None:
        return ClassTying({}, apart, tied)
    rule = _rule(chain, _seen(subject, chain, head, keys))
    return ClassTying({**rule, "flags": _spellings(subject), "follow_flag": _followers(subject)}, apart, tied)


def _groups(subject: ModelClass, flags: Flags, keys: Iterable[str]) -> Groups:
    """`keys` in groups of one parameter each; none where the config refuses the flags: no such model can be loaded."""
    with contextlib.suppress(Exception):  # a config class refuses in its own way
        model = subject.build({(*path, TIE_FLAG): flag for path, flag in flags.items()})
        return tuple(sorted(tuple(sorted(group)) for group in _parameters(model, keys) if len(group) > 1))
    return ()


def _parameters(model: PreTrainedModel, keys: Iterable[str]) -> list[list[str]]:
    """`keys` by parameter: by identity, and by what the class will tie after loading."""
    tensors = model.state_dict(keep_vars=True)
    sources = getattr(model, "all_tied_weights_keys", None) or {}
    groups: dict[int, list[str]] = {}
    for key in keys:
        if key in tensors:
            groups.setdefault(id(tensors[sources.get(key, key)]), []).append(key)
    return list(groups.values())


def _seen(subject: ModelClass, chain: list[Path], head: str, keys: Iterable[str]) -> list[tuple[Flags, bool]]:
    """Whether the head is shared, for each way in which the levels may state the flag."""
    known: dict[str, bool] = {}
    seen: list[tuple[Flags, bool]] = []
    for stated in itertools.product((None, False, True), repeat=len(chain)):
        flags = {path: flag for path, flag in zip(chain, stated, strict=True) if flag is not None}
        dump = _dump(subject, flags)
        if dump not in known:
            known[dump] = any(head in group for group in _groups(subject, flags, keys))
        seen.append((flags, known[dump]))
    return seen


def _dump(subject: ModelClass, flags: Flags) -> str:
    """Flags of one dump build the same model; refused flags have a dump of their own."""
    with contextlib.suppress(Exception):  # a config class refuses in its own way
        config = subject.config({(*path, TIE_FLAG): flag for path, flag in flags.items()})
        return json.dumps(config.to_dict(), sort_keys=True, default=str)
    return "refused"


def _rule(chain: list[Path], seen: list[tuple[Flags, bool]]) -> Rule:
    """The simplest rule by which `Family.declares` tells everything seen."""
    for rule in _rules(chain):
        family = family_from_row({"type": "", "classes": [""], "input": "", **rule}, "", "")
        if all(family.declares(flags) == tied for flags, tied in seen):
            return rule
    raise Unknown("no rule tells which tie flag the class obeys")


def _rules(chain: list[Path]) -> Iterator[Rule]:
    def rule(level: str, text: Path = (), root: bool = False, inner: bool = False) -> Rule:
        return {"tie": level, "text": list(text), "root_default": root, "text_default": inner}

    yield rule("never")
    yield rule("always")
    for default in (False, True):
        yield rule("root", (), default)
    for path in reversed(chain[1:]):
        for default in (False, True):
            yield rule("text", path, False, default)
            yield rule("root-else-text", path, False, default)
        for level, root, inner in itertools.product(("either", "both"), (False, True), (False, True)):
            yield rule(level, path, root, inner)


def _spellings(subject: ModelClass) -> list[str]:
    def obeyed(name: str, value: bool) -> bool:
        config = subject.config({(TIE_FLAG,): not value, (name,): value})
        return getattr(config, TIE_FLAG, None) is value

    with contextlib.suppress(Exception):  # a class that refuses the flag refuses every spelling
        return [name for name in SPELLINGS if obeyed(name, False) and obeyed(name, True)]
    return []


def _followers(subject: ModelClass) -> dict[str, bool]:
    """Other values that are the flag's where a file leaves them out → what they are where it leaves out the flag."""
    with contextlib.suppress(Exception):  # a class that refuses the flag has none to follow it
        silent, apart, tied = (
            subject.config({} if flag is None else {(TIE_FLAG,): flag}).to_dict() for flag in (None, False, True)
        )
        return {
            key: value
            for key, value in silent.items()
            if key != TIE_FLAG and apart.get(key) is False and tied.get(key) is True
        }
    return {}
