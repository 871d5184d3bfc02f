"""Which parameters a class shares, and which flag of which config level it obeys. Observed, not read from source."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.families.builds import Path, config_of
from tests.families.recipes import FLAG_SPELLINGS
from tests.families.subject import Subject

FLAG = "tie_word_embeddings"
Groups = tuple[tuple[str, ...], ...]
Flags = Mapping[Path, bool | None]
"""What each level from the root to the text model's states, None where it is silent."""


@dataclass(frozen=True)
class Rule:
    """How the class weighs the flags.

    `level` is `root`, `text`, `either`, `both` (root and text), `root-else-text` (text where the root is silent),
    `always`, `never`, or empty without a head.
    """

    level: str = ""
    text: Path = ()
    """The nested level that is obeyed, where one is."""
    root_default: bool = False
    text_default: bool = False
    """What a level counts as where it is silent."""

    def tells(self, flags: Flags) -> bool:
        """Whether the head is shared where the levels state `flags`."""
        stated, text = flags.get(()), flags.get(self.text) if self.text else None
        root, text = self.root_default if stated is None else stated, self.text_default if text is None else text
        said = {
            "never": False,
            "always": True,
            "root": root,
            "text": text,
            "root-else-text": text if stated is None else root,
        }
        return (said | {"either": root or text, "both": root and text})[self.level]


@dataclass(frozen=True)
class Tying:
    """Which vocabulary tensors are one parameter, under stored names."""

    rule: Rule
    spellings: tuple[str, ...]
    """Other names under which the root of a config.json may state the flag; they overrule the usual one."""
    shared: Groups
    """Whatever the flags say."""
    shared_if_tied: Groups
    """Where the tables are tied."""


def observe_tying(subject: Subject, names: Mapping[str, str], head: str | None, text: Path) -> Tying:
    """How `subject` ties its vocabulary tensors `names`: key in the module tree → stored key.

    `text` is the config level that holds the size. Raises `ValueError` where no rule tells what was seen.
    """
    chain = [text[:depth] for depth in range(len(text) + 1)]
    shared, if_tied = (_groups(subject, dict.fromkeys(chain, flag), names) for flag in (False, True))
    rule = Rule() if head is None else _rule(chain, _table(subject, chain, head, names))
    return Tying(rule, _spellings(subject) if head else (), shared, if_tied)


def _spellings(subject: Subject) -> tuple[str, ...]:
    def obeyed(name: str, value: bool) -> bool:
        config = config_of(subject.model_type, subject.json | {FLAG: not value, name: value})
        return getattr(config, FLAG, None) is value

    with contextlib.suppress(Exception):  # a class that refuses the flag refuses every spelling
        return tuple(name for name in FLAG_SPELLINGS if obeyed(name, False) and obeyed(name, True))
    return ()


def _groups(subject: Subject, flags: Flags, names: Mapping[str, str]) -> Groups:
    groups = _shared(subject, flags, names)
    return tuple(sorted(tuple(sorted(names[key] for key in group)) for group in groups if len(group) > 1))


def _shared(subject: Subject, flags: Flags, keys: Iterable[str]) -> list[list[str]]:
    """`keys` in groups of one parameter each, by identity and by what the class will tie after loading.

    No groups where the config refuses the flags: no such model can be loaded.
    """
    try:
        model = subject.with_values({(*path, FLAG): flag for path, flag in flags.items() if flag is not None})
    except Exception:  # a config class refuses in its own way
        return []
    tensors = model.state_dict(keep_vars=True)
    sources = getattr(model, "all_tied_weights_keys", None) or {}
    groups: dict[int, list[str]] = {}
    for key in keys:
        if key in tensors:
            groups.setdefault(id(tensors[sources.get(key, key)]), []).append(key)
    return list(groups.values())


def _table(subject: Subject, chain: list[Path], head: str, names: Mapping[str, str]) -> list[tuple[Flags, bool]]:
    """Whether the head is shared, for each way in which a config.json may state the flags."""
    known: dict[str, bool] = {}
    table: list[tuple[Flags, bool]] = []
    for stated in itertools.product((None, False, True), repeat=len(chain)):
        flags = dict(zip(chain, stated, strict=True))
        dump = _dump(subject, flags)
        if dump not in known:
            known[dump] = any(head in group and len(group) > 1 for group in _shared(subject, flags, names))
        table.append((flags, known[dump]))
    return table


def _dump(subject: Subject, flags: Flags) -> str:
    """Flags of one dump build the same model; refused flags have a dump of their own."""
    try:
        return subject.dump_with({(*path, FLAG): flag for path, flag in flags.items() if flag is not None})
    except Exception:  # a config class refuses in its own way
        return "refused"


def _rule(chain: list[Path], table: list[tuple[Flags, bool]]) -> Rule:
    """The simplest rule that tells every entry of `table`."""
    for rule in _rules(chain):
        if all(rule.tells(flags) == tied for flags, tied in table):
            return rule
    raise ValueError(f"no rule tells {table}")


def _rules(chain: list[Path]) -> Iterator[Rule]:
    yield Rule("never")
    yield Rule("always")
    for default in (False, True):
        yield Rule("root", (), default)
    for path in reversed(chain[1:]):
        for default in (False, True):
            yield Rule("text", path, False, default)
            yield Rule("root-else-text", path, False, default)
        for level, root, text in itertools.product(("either", "both"), (False, True), (False, True)):
            yield Rule(level, path, root, text)
