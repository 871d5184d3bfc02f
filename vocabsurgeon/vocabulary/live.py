"""`live_check`: the tie state of the model in memory, beside what the files say. Loads it, saves it, loads it again."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import VocabsurgeonError
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.loading import LoadedModel, load_model
from vocabsurgeon.vocabulary.meta_device import DECIDED_BY
from vocabsurgeon.vocabulary.tie_state import TieState


@dataclass(frozen=True)
class Answers:
    """Four ways to ask a model whether its two tables are one. All None where it has not both of them."""

    identical: bool | None
    """One parameter object."""
    same_storage: bool | None
    """The same address."""
    write_through: bool | None
    """An element written into the input table is seen in the head."""
    optimizer_entries: int | None
    """How often an optimizer over the model's parameters holds the two: once or twice."""

    @property
    def shared(self) -> bool | None:
        """Whether the tables are one; None where there are not two, or where the four answers contradict."""
        said = set(self.shares)
        return said.pop() if len(said) == 1 else None

    @property
    def shares(self) -> tuple[bool | None, ...]:
        """Each answer as a yes or no to: is it one."""
        once = None if self.optimizer_entries is None else self.optimizer_entries == 1
        return self.identical, self.same_storage, self.write_through, once


@dataclass(frozen=True)
class Live:
    """What was seen in memory. None is "not measured"."""

    answers: Answers
    after_round_trip: TieState | None
    """The state of what `save_pretrained` writes."""
    missing_keys: tuple[str, ...]
    agrees: bool | None
    evidence: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The `live` object of `inspect`."""
        return {
            **vars(self.answers),
            "after_round_trip": None if self.after_round_trip is None else str(self.after_round_trip),
            "missing_keys": list(self.missing_keys),
            "agrees": self.agrees,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True)
class LiveDescription:
    """A description of the files with the live check beside it."""

    description: Description
    live: Live

    @property
    def passed(self) -> bool:
        """False where files and memory disagree."""
        return self.live.agrees is not False

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `inspect --load`."""
        return {**self.description.to_dict(), "live": self.live.to_dict()}


def live_check(description: Description, trust_remote_code: bool = False) -> LiveDescription:
    """Load the described checkpoint through transformers, in its own dtype, and ask the model.

    Files and memory agree where the two tables are shared as the config declares, no parameter at all is random, and a
    model that was saved and loaded again shares as much. So a `conflict` and a `headless` checkpoint never agree: one
    of the things that they say is not so. Writes to a temporary folder alone. Raises `CheckpointError` where
    transformers does not load the files.
    """
    source = description.source
    loaded = load_model(source, trust_remote_code=trust_remote_code)
    answers, random = ask(loaded, description), tuple(random_tables(loaded, description))
    state, again, failure = _round_trip(loaded, description, trust_remote_code)
    problems = (*_problems(description, answers, random, again), *_left_to_chance(loaded, random))
    checked = description.tie.state is TieState.NO_HEAD or answers.shared is not None
    return LiveDescription(
        description,
        Live(
            answers,
            state,
            loaded.missing,
            False if problems else True if checked else None,
            (*_seen(loaded, answers), *_told(description, state, failure), *problems),
        ),
    )


def ask(loaded: LoadedModel, description: Description) -> Answers:
    """Ask the model about its head and the table that the head is one with where tied; nothing of it is changed."""
    first, second = _partner(loaded, description), loaded.output_table
    if first is None or second is None:
        return Answers(None, None, None, None)
    same = first.data_ptr() == second.data_ptr()
    return Answers(first is second, same, _writes_through(first, second), _entries(loaded.model, first, second))


def _partner(loaded: LoadedModel, description: Description) -> Any | None:
    """The input embedding, but in models that read with one table and write with another: then a decoder's own."""
    tables = description.tables
    if tables.partner is None or tables.input is None or tables.partner.key == tables.input.key:
        return loaded.input_table
    named = dict(loaded.model.named_parameters(remove_duplicate=False))
    return named.get(tables.partner.key, loaded.input_table)


def _writes_through(first: Any, second: Any) -> bool | None:
    """Write one element of `first`, look at `second`, write the old bits back."""
    import torch

    if first.is_meta or second.is_meta or not first.is_floating_point() or 0 in (first.numel(), second.numel()):
        return None
    here, there = (0,) * first.dim(), (0,) * second.dim()
    with torch.no_grad():
        try:
            kept, before = first[here].clone(), second[there].clone()
            first[here] = 1.0 if float(kept) != 1.0 else 2.0
        except (RuntimeError, NotImplementedError):  # a type without arithmetic
            return None
        seen = second[there].clone()
        first[here] = kept
    return not _same_bits(before, seen)


def _same_bits(first: Any, second: Any) -> bool:
    import torch

    return bool(torch.equal(first.reshape(1).view(torch.uint8), second.reshape(1).view(torch.uint8)))


def _entries(model: Any, first: Any, second: Any) -> int | None:
    import torch

    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    except (ValueError, TypeError):  # parameters that nothing can train, say quantized ones
        return None
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return sum(parameter is first or parameter is second for parameter in held)


def random_tables(loaded: LoadedModel, description: Description) -> Iterator[str]:
    """The keys of vocabulary tables that are in no file: what was loaded for them is random."""
    family = description.tables.family
    known = {tensor.key for tensor in (*family.output_bias, *family.others)} if family else set()
    tables = [table for table in (loaded.input_table, loaded.output_table) if table is not None]
    named = dict(loaded.model.named_parameters(remove_duplicate=False))
    for key in loaded.missing:
        if any(named.get(key) is table for table in tables) or any(fnmatchcase(key, name) for name in known):
            yield key


def _round_trip(
    loaded: LoadedModel, description: Description, trust_remote_code: bool
) -> tuple[TieState | None, bool | None, str | None]:
    """The state of what the model saves, whether that loads shared, and why where either is not known."""
    tables = description.tables
    named = tables.decided_by == "--input-key/--output-key"
    keys = [table.key if table and named else None for table in (tables.input, tables.output)]
    try:
        with tempfile.TemporaryDirectory(prefix="vocabsurgeon-live-") as folder:
            with silenced():
                loaded.model.save_pretrained(folder)
            saved = Checkpoint.open(Path(folder))
            first, second = (key if key in saved.tensors else None for key in keys)
            observed = tables.family if tables.decided_by == DECIDED_BY else None
            state = describe(saved, input_key=first, output_key=second, observed=observed).tie.state
            again = ask(load_model(saved, trust_remote_code=trust_remote_code), description).shared
    except (VocabsurgeonError, OSError, ValueError, RuntimeError, NotImplementedError) as error:
        return None, None, next(iter(str(error).splitlines()), type(error).__name__)
    return state, again, None


def _problems(description: Description, answers: Answers, random: tuple[str, ...], again: bool | None) -> Iterator[str]:
    tie, shared = description.tie, answers.shared
    yield from (f"disagreement: {key} is in no file, so it is random at every load" for key in random)
    if shared is None and None not in answers.shares:
        yield f"disagreement: the model contradicts itself about one parameter or two: {vars(answers)}"
    if tie.declared is not None and shared is not None and tie.declared is not shared:
        said, does = ("shared", "separate") if tie.declared else ("separate", "shared")
        yield f"disagreement: the config declares the tables {said}, the model in memory has them {does}"
    if tie.state is TieState.NO_HEAD and answers.identical is not None:
        yield "disagreement: the files are of a class without an LM head, the model in memory has one"
    if again is not None and again is not shared:
        yield f"disagreement: saved and loaded again, the tables are {'shared' if again else 'separate'}"


def _left_to_chance(loaded: LoadedModel, tables: Collection[str]) -> Iterator[str]:
    """What is random beside the vocabulary tables, which are told one by one."""
    others = [key for key in loaded.random if key not in tables]
    if others:
        yield f"disagreement: {named(others)} in no file, so random at every load"


def named(keys: Sequence[str]) -> str:
    """Up to four keys with a verb: `a, b and 3 more are`."""
    shown = ", ".join(keys[:_SHOWN]) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
    return f"{shown} {'is' if len(keys) == 1 else 'are'}"


_SHOWN = 4


def _seen(loaded: LoadedModel, answers: Answers) -> Iterator[str]:
    import transformers

    shared = {True: "one parameter for both tables", False: "two parameters", None: "not both tables"}[answers.shared]
    yield f"transformers {transformers.__version__} loads {type(loaded.model).__name__}: {shared}"
    if loaded.unexpected:
        more = f" and {len(loaded.unexpected) - 8} more" if len(loaded.unexpected) > 8 else ""
        yield f"stored, and taken by no parameter: {', '.join(loaded.unexpected[:8])}{more}"


def _told(description: Description, state: TieState | None, failure: str | None) -> Iterator[str]:
    if failure is not None:
        yield f"after a save and a load: not checked: {failure}"
    elif state is not None and state is not description.tie.state:
        yield f"save_pretrained turns {description.tie.state} into {state}"
