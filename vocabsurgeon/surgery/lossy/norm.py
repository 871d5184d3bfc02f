"""Which norm feeds the LM head, and how its gain is stored: final_norms.json as data, names as the checkpoint has them.

A row was observed on a running model of the class: scaling a column of the head and the norm against each other left
every logit as it was. So no projection lies between the two, and nothing else hears the norm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any

from vocabsurgeon.errors import UsageError
from vocabsurgeon.vocabulary.describe import Description

OPTION = "--refit-norm"


@dataclass(frozen=True)
class FinalNorm:
    """The norm before the head, by the keys in the checkpoint at hand."""

    key: str
    bias: str | None
    offset: float
    """What the class adds to the stored gain: 1 where it is stored as gain - 1."""


def final_norm(description: Description) -> FinalNorm:
    """The norm that feeds the head here; raises `UsageError` with the reason where there is none to be refitted."""
    family = description.tables.family
    if family is None:
        raise _impossible("which norm feeds the head is known from the model type, and this one is not known")
    row = _rows().get(f"{family.model_type}/{family.architecture}")
    if row is None:
        raise _impossible(f"no norm is known to feed the head of {family.architecture}")
    if "without" in row:
        raise _impossible(f"no norm can be refitted in {family.architecture}: {row['without']}")
    found = FinalNorm(
        _stored(description, family.input_key, row["gain"]),
        _stored(description, family.input_key, row["bias"]) if "bias" in row else None,
        row.get("offset", 0.0),
    )
    width = description.tables.main.info.shape[1]
    for key in (found.key, found.bias):
        if key is not None and description.source.tensors[key].shape != (width,):
            shape = list(description.source.tensors[key].shape)
            raise _impossible(f"{key} has shape {shape}, not [{width}]")
    return found


def _stored(description: Description, input_key: str, key: str) -> str:
    """The name in this checkpoint: what the class calls `key`, under the prefix that the input table has here."""
    tensors, held = description.source.tensors, description.tables.input
    shared = _shared_levels(input_key, key)
    below = ".".join(input_key.split(".")[shared:])
    names = [key]
    if held is not None and held.key.endswith(below):
        names.insert(0, held.key.removesuffix(below) + ".".join(key.split(".")[shared:]))
    for name in names:
        found = _last_layer(tensors, name) if "*" in name else name
        if found in tensors:
            return found
    raise _impossible(f"the norm {key} is not stored under any known name")


def _shared_levels(first: str, second: str) -> int:
    """How many dotted levels the two names begin with alike."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _last_layer(tensors: Iterable[str], name: str) -> str:
    """`name` with the highest number for its `*` that is stored."""
    before, _, after = name.partition("*")
    numbers = (
        key[len(before) : len(key) - len(after)] for key in tensors if key.startswith(before) and key.endswith(after)
    )
    return before + str(max((int(number) for number in numbers if number.isdecimal()), default="*")) + after


def _impossible(reason: str) -> UsageError:
    return UsageError(reason, where=OPTION, hint="leave the option out")


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    text = files("vocabsurgeon.surgery.lossy").joinpath("final_norms.json").read_text("utf-8")
    rows: Mapping[str, Mapping[str, Any]] = json.loads(text)["norms"]
    return rows
