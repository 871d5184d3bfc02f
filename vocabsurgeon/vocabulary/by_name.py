"""Which stored tensors look like vocabulary tables, by shape and name: for types that nothing else knows.

The last guess before the user has to name them: where two tensors fit one role, nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError
from vocabsurgeon.vocabulary.families import known_input_keys, known_output_keys

DECIDED_BY = "shapes and names"

_SIZE = re.compile(r"vocab_size|n_vocab|n_words|vocabulary_size")
_OUTPUT = re.compile(r"lm_head|head|output|out_proj|proj_out|embed_out|unembed|decoder|logits|generator", re.IGNORECASE)
_INPUT = re.compile(r"embed|wte|emb\b|token|word|shared", re.IGNORECASE)
NEITHER = re.compile(
    r"pos(?!t)|wpe|type|segment|time|patch|vision|visual|image|pixel|audio|speech|rotary|relative", re.IGNORECASE
)
"""What names tables of positions, segments and other modalities."""


@dataclass(frozen=True)
class ByName:
    """The keys that fit, None where none does."""

    input: str | None
    output: str | None
    evidence: tuple[str, ...]


def tables_by_name(source: Checkpoint, input_key: str | None = None, output_key: str | None = None) -> ByName:
    """The stored `[V, D]` tensors that are the input embedding and the LM head by their names.

    A name counts that is known from other types, or that is telling where config.json states V. A key that is given is
    taken as it is.

    Raises `CheckpointError` where two tensors fit a role, naming them and the options.
    """
    tables = [info for info in source.tensors.values() if len(info.shape) == 2 and 0 not in info.shape]
    sizes = _sizes(source.config)
    heads = [info for info in tables if _fits(info, known_output_keys(), _OUTPUT, sizes)]
    inputs = [info for info in tables if info not in heads and _fits(info, known_input_keys(), _INPUT, sizes)]
    found_input = source.tensors[input_key] if input_key else _only(source, inputs, "input embedding", "--input-key")
    if found_input is not None:
        heads = [info for info in heads if info.shape == found_input.shape]
    found_output = source.tensors[output_key] if output_key else _only(source, heads, "LM head", "--output-key")
    pair = (("input embedding", found_input, input_key), ("LM head", found_output, output_key))
    evidence = tuple(_told(role, info, named) for role, info, named in pair if info)
    keys = [info.key if info else None for info in (found_input, found_output)]
    return ByName(keys[0], keys[1], evidence)


def _sizes(config: Config) -> frozenset[int]:
    """Every whole number that a level of config.json gives as the size of a vocabulary."""
    stated = ((key, value) for level in config.levels.values() for key, value in level.items())
    return frozenset(value for key, value in stated if type(value) is int and value > 0 and _SIZE.search(key))


def _fits(info: TensorInfo, known: Iterable[str], telling: re.Pattern[str], sizes: frozenset[int]) -> bool:
    if info.key in known:
        return True
    leaf = info.key.removesuffix(".weight").rpartition(".")[2]
    return info.shape[0] in sizes and bool(telling.search(leaf)) and not NEITHER.search(info.key)


def _only(source: Checkpoint, fitting: list[TensorInfo], role: str, option: str) -> TensorInfo | None:
    if len(fitting) > 1:
        shown = ", ".join(f"{info.key} {list(info.shape)}" for info in fitting[:_MOST])
        more = f" and {len(fitting) - _MOST} more" if len(fitting) > _MOST else ""
        raise CheckpointError(
            f"the type {source.config.model_type!r} is unknown and {len(fitting)} tensors could be its {role}: "
            f"{shown}{more}",
            where=source.root,
            hint=f"name it with {option}",
        )
    return next(iter(fitting), None)


_MOST = 8
"""Candidates that a message names."""


def _told(role: str, info: TensorInfo, named: str | None) -> str:
    why = "as named by the user" if named else f"by {DECIDED_BY}"
    return f"{info.file}: {info.key} {list(info.shape)} is the {role} {why}"
