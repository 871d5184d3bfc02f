"""Names and dimensions of a decoder graph's inputs and outputs, as Optimum, transformers.js and others read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BATCH, SEQUENCE, PAST, TOTAL = "batch_size", "sequence_length", "past_sequence_length", "total_sequence_length"
IDS, MASK, POSITIONS, LOGITS = "input_ids", "attention_mask", "position_ids", "logits"


@dataclass(frozen=True)
class CacheLayer:
    """Heads and widths of one layer's keys and values, both `[batch, heads, length, width]`."""

    key: tuple[int, int]
    value: tuple[int, int]


@dataclass(frozen=True)
class Signature:
    """What a decoder graph takes and gives: one entry of `layers` a cached layer, none without a cache."""

    layers: tuple[CacheLayer, ...]
    rows: int
    """Width of the logits."""

    def inputs(self) -> dict[str, list[str | int]]:
        """Input name → dimensions, in graph order."""
        total = TOTAL if self.layers else SEQUENCE
        fixed: dict[str, list[str | int]] = {IDS: [BATCH, SEQUENCE], MASK: [BATCH, total], POSITIONS: [BATCH, SEQUENCE]}
        return fixed | self._cache("past_key_values", PAST)

    def outputs(self) -> dict[str, list[str | int]]:
        """Output name → dimensions, in graph order."""
        fixed: dict[str, list[str | int]] = {LOGITS: [BATCH, SEQUENCE, self.rows]}
        return fixed | self._cache("present", TOTAL)

    def _cache(self, prefix: str, length: str) -> dict[str, list[str | int]]:
        named: dict[str, list[str | int]] = {}
        for index, layer in enumerate(self.layers):
            for part, (heads, width) in (("key", layer.key), ("value", layer.value)):
                named[f"{prefix}.{index}.{part}"] = [BATCH, heads, length, width]
        return named


def past_names(inputs: Sequence[str]) -> list[str]:
    """The cache inputs among a graph's inputs."""
    return [name for name in inputs if name.startswith("past_key_values.")]


def present_name(past: str) -> str:
    """The output that continues cache input `past`."""
    return past.replace("past_key_values.", "present.", 1)
