"""Ids that have a meaning already, in the files or by the class's arithmetic: no new token takes one by accident."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.special_tokens import CONFIG as SETTINGS
from vocabsurgeon.classes.computed_ids import ComputedIds, Facts, computed_ids
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.tokens.assignment import AssignedToken
from vocabsurgeon.tokenizer.declared_ids import GENERATION, DeclaredId, read_declared_ids, read_object

_BLOCKING = ("role", "marker", "forced", "language", "banned", "unknown")
_ROLE_KEY = "_token_id"
_HARM: Mapping[str, str] = {"banned": "generation would never produce it", "forced": "generation would force it"}


def refuse_taken_ids(
    source: Checkpoint, tokens: Sequence[AssignedToken], roles: Mapping[str, str], rows: int
) -> Refusal | None:
    """The refusal to hand out an id that already means something; None where the token is plainly the one meant.

    `roles`: role → content, given in this run; `rows`: how many rows the tables will have. Refused are an id that a
    file names, an id that the class computes with, and a padding id past the rows, with which OUT would not load.
    """
    declared = read_declared_ids(source)
    return (
        _named(declared, tokens, roles)
        or _computed(source, [token for token in tokens if token.status == "added"], roles)
        or _padding_past_rows(declared, roles, rows)
    )


def _named(declared: Sequence[DeclaredId], tokens: Sequence[AssignedToken], roles: Mapping[str, str]) -> Refusal | None:
    blocking = [found for found in declared if found.kind in _BLOCKING and found.alone and found.of_text]
    new = {token.id: token for token in tokens if token.status == "added"}
    for found in blocking:
        token = new.get(found.id)
        if token is None or _is_meant(token.content, found, roles) or _is_replaced(found, roles):
            continue
        harm = _HARM.get(found.kind, "it would be taken for that")
        return Refusal(
            "extend",
            f"{token.content!r} would get id {token.id}, which is {found.where}: {harm}",
            (f"the tokenizer has no token with id {token.id}",),
            (_way_out(found),),
        )
    return None


def _way_out(found: DeclaredId) -> str:
    if found.kind == "banned":
        return f"take {found.id} out of {found.key} in {found.file}, if the token is to be generated"
    return f"add the token that {found.key} means first, or correct {found.file}"


def _is_meant(content: str, found: DeclaredId, roles: Mapping[str, str]) -> bool:
    """Whether it is given that role (`decoder_start` is no role of a tokenizer), or its text holds the name's words."""
    if found.kind == "banned":
        return False
    if found.kind == "language":
        return str(found.path[-1]) in content
    meaning = re.sub(r"_(?:token_ids?|token_ind(?:ex|ices)|token_idx|token|ids?|index)$", "", found.key)
    words = [word for word in meaning.split("_") if len(word) > 2]
    return roles.get(meaning) == content or any(word in content.lower() for word in words)


def _is_replaced(found: DeclaredId, roles: Collection[str]) -> bool:
    """Whether this run writes another id in its place; an id in a list stays there."""
    return (
        found.file in (CONFIG, GENERATION)
        and found.path[-1] == found.key
        and found.key.removesuffix(_ROLE_KEY) in roles
    )


def _computed(source: Checkpoint, new: Sequence[AssignedToken], roles: Collection[str]) -> Refusal | None:
    for found in computed_of(source):
        taken = next((token for token in new if found.takes(token.id, token.content)), None)
        if taken is None or (found.eos_settles and "eos" in roles):
            continue
        return Refusal(
            "extend",
            f"{taken.content!r} would get id {taken.id}: {found.mechanism}; {found.consequence}",
            ways_out=found.ways_out,
            details={"computed_by": found.source},
        )
    return None


def computed_of(source: Checkpoint) -> tuple[ComputedIds, ...]:
    """What the checkpoint's classes compute with its ids."""
    tokens = source.tokenizer.token_to_id if source.tokenizer else {}
    return computed_ids(Facts(source.config, read_object(source, GENERATION), read_object(source, SETTINGS), tokens))


def padding_notes(source: Checkpoint, padding: Sequence[int]) -> tuple[str, ...]:
    """A note for each rule of the classes that rows without a token (`padding`, their numbers) meet too."""
    return tuple(
        f"{len(padding)} padding rows: {found.mechanism}; {found.padded}: leave out --pad-to-multiple-of to avoid that"
        for found in (computed_of(source) if padding else ())
        if found.padded and any(found.takes(number) for number in padding)
    )


def _padding_past_rows(declared: Sequence[DeclaredId], roles: Collection[str], rows: int) -> Refusal | None:
    for found in () if "pad" in roles else _paddings_past(declared, rows):
        return Refusal(
            "extend",
            f"{found.where} is {found.id}, but the table will have {rows} rows: the result would not load",
            ways_out=("name the padding token in the same run: `--role pad=TOKEN`", f"correct {CONFIG}"),
        )
    return None


def _paddings_past(declared: Sequence[DeclaredId], rows: int) -> list[DeclaredId]:
    """nn.Embedding takes its padding index from config.json, and does not build with one past its rows."""
    named = [found for found in declared if found.file == CONFIG and found.key == "pad_token_id" and found.of_text]
    return [found for found in named if found.id >= rows]


def settled_padding(source: Checkpoint, rows: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The role pad for the tokenizer's padding token, and a note, where config.json names a padding id past the rows.

    Such a checkpoint does not load, so there is no meaning to keep; nothing where the tokenizer has no padding token.
    """
    past = _paddings_past(read_declared_ids(source), rows)
    tokenizer = source.tokenizer
    content = tokenizer.roles.get("pad") if tokenizer else None
    number = tokenizer.token_to_id.get(content) if tokenizer and content is not None else None
    if not past or content is None or number is None or number >= rows:
        return {}, ()
    note = f"{past[0].where} was {past[0].id}, past the {rows} rows: it is now {number}, the tokenizer's {content!r}"
    return {"pad": content}, (note,)
