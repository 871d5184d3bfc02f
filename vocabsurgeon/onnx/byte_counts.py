"""Bytes of an export or checkpoint, counted from places on disk: stored, referenced, orphaned, and the graph's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.onnx.tensors import StoredTensor


@dataclass(frozen=True)
class ByteCounts:
    """`stored`: tensor bytes in the files, orphans included (inline tensors too, the graph's own bytes not).
    `referenced`: what tensors point at; `unique`: each distinct content once; `expected`: what the checkpoint's
    parameters need, None without a checkpoint; `orphaned`: bytes of data files that no tensor points at.
    """

    stored: int
    referenced: int
    unique: int
    expected: int | None
    orphaned: int
    graph: int

    @property
    def ratio(self) -> float | None:
        """`stored` over `expected`, or over `unique` without a checkpoint; None where there is nothing to hold."""
        needed = self.unique if self.expected is None else self.expected
        return self.stored / needed if needed else None

    def to_dict(self) -> dict[str, Any]:
        """The contract's `bytes` object."""
        return {
            "stored": self.stored,
            "referenced": self.referenced,
            "unique": self.unique,
            "expected": self.expected,
            "orphaned": self.orphaned,
            "ratio": self.ratio,
            "graph": self.graph,
        }


def referenced_bytes(tensors: Iterable[StoredTensor]) -> int:
    """Bytes on disk that at least one tensor points at; overlaps count once."""
    return sum(sum(end - start for start, end in spans) for spans in _spans(tensors).values())


def orphaned_bytes(tensors: Sequence[StoredTensor], data: Mapping[Path, int]) -> int:
    """Bytes of the data files (`data`: path → first byte that could be a tensor's) that no tensor points at."""
    spans = _spans(tensor for tensor in tensors if tensor.external)
    covered = {path: sum(end - start for start, end in spans.get(path, [])) for path in data}
    return sum(path.stat().st_size - start - covered[path] for path, start in data.items())


def _spans(tensors: Iterable[StoredTensor]) -> dict[Path, list[tuple[int, int]]]:
    """Path → the merged stretches that tensors point at."""
    raw: dict[Path, list[tuple[int, int]]] = {}
    for tensor in {tensor.place: tensor for tensor in tensors}.values():
        raw.setdefault(tensor.path, []).append((tensor.offset, tensor.offset + tensor.nbytes))
    return {path: _merged(spans) for path, spans in raw.items()}


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
