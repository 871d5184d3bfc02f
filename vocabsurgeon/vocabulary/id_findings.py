"""What `check` finds about ids and flags: past the rows, contradicting each other, computed with by the class. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from vocabsurgeon.checkpoint.config import CONFIG, TIE_FLAG, Path, level_name
from vocabsurgeon.checkpoint.special_tokens import CONFIG as SETTINGS
from vocabsurgeon.checkpoint.special_tokens import ROLES, SPECIAL_MAP, content_of
from vocabsurgeon.classes.computed_ids import Facts, computed_ids
from vocabsurgeon.tokenizer.declared_ids import (
    GENERATION,
    PROCESSORS,
    DeclaredId,
    read_declared_ids,
    read_object,
)
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.families import family_for
from vocabsurgeon.vocabulary.tie_state import TieState

Told = tuple[Literal["error", "warning", "note"], str, str]
"""Severity, message, fix."""


def id_findings(description: Description) -> Iterator[Told]:
    """Everything there is to tell about ids and flags, rule by rule."""
    for rule in (_ids_past_rows, _contradicting_ids, _contradicting_flags, _ids_without_token, _computed_with):
        yield from rule(description)


def _ids_past_rows(description: Description) -> Iterator[Told]:
    """Named ids that no row stands for. A padding id there keeps `nn.Embedding` from being built."""
    rows = _rows(description)
    past = [found for found in read_declared_ids(description.source) if found.of_text and found.id >= rows]
    for found in _once_a_key(past):
        severity, harm = _past_rows(found, description)
        yield severity, f"{found.where} is {found.id}, but the table has {rows} rows: {harm}", _fix(found)


def _ids_without_token(description: Description) -> Iterator[Told]:
    """Roles and markers whose id has a row, but no token."""
    tokenizer, rows = description.source.tokenizer, _rows(description)
    if tokenizer is None:
        return
    known = [range(start, stop) for start, stop in tokenizer.ranges]
    for found in _once_a_key(list(read_declared_ids(description.source))):
        told = found.kind in ("role", "marker", "forced") and found.of_text and found.id < rows
        if told and not any(found.id in span for span in known):
            yield (
                "note",
                f"{found.where} is {found.id}, for which the tokenizer has no token: no text gives that id",
                "`vocabsurgeon extend` hands that id only to a token whose text fits the name",
            )


def _contradicting_ids(description: Description) -> Iterator[Told]:
    """A role or marker for which two places name different ids. Lists agree where they overlap; silence agrees.

    Markers are compared with the tokenizer alone: parts of a model may each look for one of their own.
    """
    told: dict[str, list[_Said]] = {}
    for said in (*_said_by_files(description), *_said_by_tokenizer(description)):
        told.setdefault(said.meaning, []).append(said)
    for meaning, places in told.items():
        pairs = [(a, b) for a, b in combinations(places, 2) if meaning in ROLES or a.level is None or b.level is None]
        apart = [(a, b) for a, b in pairs if not a.ids & b.ids]
        if apart:
            named = "; ".join(dict.fromkeys(str(said) for pair in apart for said in pair))
            chosen = _are_choices(
                description, meaning, frozenset().union(*(said.ids for pair in apart for said in pair))
            )
            yield (
                "note" if chosen else "error",
                f"{meaning}: {named}: which one counts depends on the reader",
                _settled_by(meaning),
            )


def _are_choices(description: Description, meaning: str, ids: frozenset[int]) -> bool:
    """Whether each id is a special token free of any other role: makers end a text with `<eos>` here, a turn there."""
    tokenizer = description.source.tokenizer
    if tokenizer is None or meaning not in ROLES:
        return False
    special = {token.id for token in tokenizer.added if token.special}
    others = {tokenizer.token_to_id.get(content) for role, content in tokenizer.roles.items() if role != meaning}
    return ids <= special - others


def _contradicting_flags(description: Description) -> Iterator[Told]:
    """`tie_word_embeddings` true at one level and false at another, of the two that readers look at."""
    family, flags = description.tables.family, description.source.config.flags()
    levels = [path for path in _flag_levels(description) if path in flags]
    values = {flags[path] for path in levels}
    if len(values) < 2 or not description.tables.has_head or description.tie.state in _SAID_ELSEWHERE:
        return
    if family is not None and family.tie_forced is not None:
        return
    obeyed = family.declares(flags) if family else flags[()]
    wrong = [level_name(path) for path in levels if flags[path] is not obeyed]
    stated = ", ".join(f"{str(flags[path]).lower()} at {level_name(path)}" for path in levels)
    usual = all(flags[path] is _default_flag(description, path) for path in levels)
    yield (
        "note" if usual else "error",
        f"{CONFIG}: {TIE_FLAG} is {stated}: this class obeys {str(obeyed).lower()}, other readers the other level"
        + ("; its config classes have these defaults" if usual else ""),
        f"set {TIE_FLAG} to {str(obeyed).lower()} at {' and '.join(wrong)} too",
    )


def _default_flag(description: Description, path: Path) -> bool | None:
    """What the config class of the level has by default; None for a type that the families table does not hold."""
    model_type = description.source.config.levels[path].get("model_type")
    own = description.tables.family if not path else None
    family = own or (family_for(model_type, None) if isinstance(model_type, str) else None)
    return family.root_default if family else None


_SAID_ELSEWHERE = (TieState.CONFLICT, TieState.HEADLESS, TieState.INPUT_MISSING, TieState.ROW_MISMATCH)


def _computed_with(description: Description) -> Iterator[Told]:
    """What the classes compute with ids, so that `extend` refuses to add any there."""
    source = description.source
    tokens = source.tokenizer.token_to_id if source.tokenizer else {}
    facts = Facts(source.config, read_object(source, GENERATION), read_object(source, SETTINGS), tokens)
    near = [found for found in computed_ids(facts) if found.first <= _rows(description)]
    for found in near:
        fix = "; ".join(found.ways_out) or "do not add tokens to it"
        yield "note", f"{found.mechanism}; a new token there: {found.consequence}", fix


def _rows(description: Description) -> int:
    """The rows of the largest vocabulary table: a model with two vocabularies names ids of both."""
    return max(table.rows for table in description.tables.stored)


def _once_a_key(found: list[DeclaredId]) -> list[DeclaredId]:
    """The highest id of each key: one finding tells of a list."""
    highest: dict[str, DeclaredId] = {}
    for item in sorted(found, key=lambda item: item.id):
        highest[item.where] = item
    return list(highest.values())


_REPLACED_FIRST = {"paligemma", "gemma3", "nemotron3_5_transcribe", "shieldgemma2", "colpali"}
"""Types that put another id in the image token's place before the lookup, where it lies past the table."""


def _past_rows(found: DeclaredId, description: Description) -> tuple[Literal["error", "warning", "note"], str]:
    if found.key == "pad_token_id" and found.file == CONFIG:
        return "error", "the embedding cannot be built with a padding id past its rows"
    if found.kind == "marker" and description.source.config.model_type in _REPLACED_FIRST:
        return "note", "the class puts another id in its place before the lookup"
    if found.kind in ("banned", "start"):
        return "note", "it stands for nothing"
    if found.kind == "unknown":
        return "note", "what the key means is not known here; if it names a token, no row stands for it"
    if found.key == "eos_token_id" and found.path[-1] != found.key:
        return "warning", "one of several ends of text that can never be generated"
    return "error", "it can be neither read nor generated"


def _fix(found: DeclaredId) -> str:
    return f"correct {found.key} in {found.file}, or add the token it means with `vocabsurgeon extend`"


@dataclass(frozen=True)
class _Said:
    """What one place says about a role or marker."""

    meaning: str
    where: str
    ids: frozenset[int]
    level: Path | None = None

    def __str__(self) -> str:
        shown = ", ".join(map(str, sorted(self.ids)))
        return f"{self.where} says {shown}"


_SUFFIXES = ("_token_id", "_token_index", "_token_ids")


def _said_by_files(description: Description) -> Iterator[_Said]:
    """Config levels that hold the text model, and generation_config.json: a key without its ending → its ids."""
    levels = {(), *_flag_levels(description)}
    held: dict[tuple[str, str, Path], set[int]] = {}
    for found in read_declared_ids(description.source):
        suffix = next((end for end in _SUFFIXES if found.key.endswith(end)), None)
        if suffix is None or found.kind not in ("role", "marker") or found.file not in (CONFIG, GENERATION):
            continue
        if found.level in levels and found.key not in _NO_ROLE:
            meaning = found.key.removesuffix(suffix).lstrip("_")
            held.setdefault((meaning, found.where, found.level), set()).add(found.id)
    for (meaning, where, level), ids in held.items():
        said = _Said(meaning, where, frozenset(ids), level)
        if not _is_legacy(description, said):
            yield said


_NO_ROLE = {"no_timestamps_token_id", "prev_sot_token_id"}


def _said_by_tokenizer(description: Description) -> Iterator[_Said]:
    """`eos_token` of the tokenizer's files and `image_token` of those and the processors', as ids."""
    source = description.source
    if source.tokenizer is None:
        return
    roles = source.tokenizer.roles
    places: dict[str, Mapping[str, object]] = {"the tokenizer": {f"{role}_token": roles[role] for role in roles}}
    for name in (SETTINGS, SPECIAL_MAP, *PROCESSORS):
        content = read_object(source, name)
        places[name] = {key: value for key, value in content.items() if key.removesuffix("_token") not in ROLES}
    for where, content in places.items():
        for key, value in content.items():
            token = content_of(value) if key.endswith("_token") else None
            number = source.tokenizer.token_to_id.get(token) if token is not None else None
            if number is not None:
                yield _Said(key.removesuffix("_token"), f"{where} ({token!r})", frozenset({number}))


_TEXT_LEVELS = {"text_config", "language_config", "llm_config", "thinker_config"}


def _flag_levels(description: Description) -> list[Path]:
    """The root, and the levels below that hold the text model of one whole; a composed model's parts are two models."""
    levels = description.source.config.levels
    return [path for path in levels if all(name in _TEXT_LEVELS for name in path)]


_CLIP_TEXT = re.compile(r"(clip|clipseg|groupvit|xclip|owlvit|owlv2|metaclip_2|siglip2?)_text_model")
_CLIP_LEGACY = {"eos": {2}, "bos": {0}, "pad": {0, 1}}
"""What CLIP's text configs state whatever the tokenizer has (transformers before 4.31 wrote it). Of these the classes
read eos alone, and give 2 a meaning of its own (`classes.computed_ids`)."""


def _is_legacy(description: Description, said: _Said) -> bool:
    level = description.source.config.levels.get(said.level or (), {})
    clip = _CLIP_TEXT.fullmatch(str(level.get("model_type"))) is not None
    return clip and said.ids <= _CLIP_LEGACY.get(said.meaning, set())


def _settled_by(meaning: str) -> str:
    if meaning in ROLES:
        return f"`vocabsurgeon extend --role {meaning}=TOKEN` writes every file and level"
    return "correct the file that is wrong"
