"""What `check` says of the names of tensors and weight files: those that readers do not find, or do not agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from vocabsurgeon.checkpoint.shards import beside
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.tables import Tables
from vocabsurgeon.vocabulary.wrapped_names import reason, ways_out

Severity = Literal["error", "warning", "note"]


def weight_names(source: Checkpoint, tables: Tables) -> Iterator[tuple[Severity, str, str]]:
    """Severity, message and fix of each: names left by a training framework, shards without an index, weights beside
    those that are read."""
    if tables.training:
        yield "error", reason(tables), "; ".join(ways_out(tables))
    if source.shards.unindexed:
        yield (
            "warning",
            f"{_listed(tuple(source.shards.headers))}: no index names these files, so transformers does not find them",
            f"fetch {source.shards.index_name}, or take the result of any `vocabsurgeon` edit, which writes one",
        )
    held = beside(source.files, source.shards)
    read = _listed(tuple(source.shards.headers))
    if held.unnamed:
        yield (
            "warning",
            f"{_listed(held.unnamed)}: left over beside {source.shards.index_name}, which does not name it: "
            "transformers and vLLM do not read it, readers that take every file do",
            "move it to another folder, where it is left over from an earlier save",
        )
    if held.other_format:
        taken = _PICKLED if source.shards.pickled else "which transformers and vLLM take, and this report is about"
        yield (
            "note",
            f"{_listed(held.other_format)} lies beside {read}, {taken}",
            "nothing, where both hold the same model; else move what is out of date to another folder",
        )


_PICKLED = "which transformers takes: safetensors without an index or model.safetensors it does not find; vLLM does"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
