"""Names and dimensions of a graph's inputs and outputs, as Optimum, transformers.js and others read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BATCH, SEQUENCE, PAST, TOTAL = "batch_size", "sequence_length", "past_sequence_length", "total_sequence_length"
ENCODED, ENCODED_PAST = "encoder_sequence_length", "past_encoder_sequence_length"
FRAMES = "frames"
IDS, MASK, POSITIONS, TYPES = "input_ids", "attention_mask", "position_ids", "token_type_ids"
FEATURES = "input_features"
STATES, STATES_MASK = "encoder_hidden_states", "encoder_attention_mask"
LOGITS, HIDDEN = "logits", "last_hidden_state"
_PAST, _PRESENT = "past_key_values.", "present."

Dimensions = tuple[str | int, ...]
Shapes = Mapping[str, Dimensions]


@dataclass(frozen=True)
class CacheLayer:
    """Heads and widths of one layer's keys and values, both `[batch, heads, length, width]`."""

    key: tuple[int, int]
    value: tuple[int, int]


@dataclass(frozen=True)
class Signature:
    """What a graph takes and gives: name → dimensions, in graph order."""

    inputs: Shapes
    outputs: Shapes

    @property
    def caches(self) -> bool:
        """Whether the graph can continue from a cache."""
        return bool(past_names(list(self.inputs)))


def decoder(layers: Sequence[CacheLayer], rows: int) -> Signature:
    """A decoder-only model's: logits of `rows`, one key and value for each of `layers`, none without a cache."""
    total = TOTAL if layers else SEQUENCE
    inputs: Shapes = {IDS: (BATCH, SEQUENCE), MASK: (BATCH, total), POSITIONS: (BATCH, SEQUENCE)}
    outputs: Shapes = {LOGITS: (BATCH, SEQUENCE, rows)}
    return Signature({**inputs, **_cache(_PAST, layers, PAST)}, {**outputs, **_cache(_PRESENT, layers, TOTAL)})


def encoder(output: str, width: int, types: bool) -> Signature:
    """An encoder's: `logits` or `last_hidden_state` of `width`; with token types where the model tells segments."""
    named = (IDS, MASK, TYPES) if types else (IDS, MASK)
    return Signature(dict.fromkeys(named, (BATCH, SEQUENCE)), {output: (BATCH, SEQUENCE, width)})


def text_encoder(width: int) -> Signature:
    """The encoder of an encoder–decoder model that reads text."""
    inputs: Shapes = {IDS: (BATCH, ENCODED), MASK: (BATCH, ENCODED)}
    return Signature(inputs, {HIDDEN: (BATCH, ENCODED, width)})


def speech_encoder(features: int, frames: int, length: int, width: int) -> Signature:
    """The encoder of Whisper and its like: `[batch, features, frames]` in, a fixed `length` of states out."""
    return Signature({FEATURES: (BATCH, features, frames)}, {HIDDEN: (BATCH, length, width)})


def cross_decoder(
    layers: Sequence[CacheLayer], crossed: Sequence[CacheLayer], rows: int, width: int, masked: bool
) -> Signature:
    """The decoder of an encoder–decoder model: `layers` of its own keys and values, `crossed` those of the encoder's
    states `[batch, encoder length, width]`; both empty without a cache. `masked`: it reads the encoder's mask."""
    fixed: Shapes = {STATES_MASK: (BATCH, ENCODED)} if masked else {}
    inputs: Shapes = {**fixed, IDS: (BATCH, SEQUENCE), STATES: (BATCH, ENCODED, width)}
    past = _cross_cache(_PAST, layers, crossed, PAST, ENCODED_PAST)
    present = _cross_cache(_PRESENT, layers, crossed, TOTAL, ENCODED)
    return Signature({**inputs, **past}, {LOGITS: (BATCH, SEQUENCE, rows), **present})


def past_names(inputs: Sequence[str]) -> list[str]:
    """The cache inputs among a graph's inputs."""
    return [name for name in inputs if name.startswith(_PAST)]


def present_name(past: str) -> str:
    """The output that continues cache input `past`."""
    return past.replace(_PAST, _PRESENT, 1)


def _cache(prefix: str, layers: Sequence[CacheLayer], length: str) -> Shapes:
    return {
        f"{prefix}{index}.{part}": (BATCH, heads, length, width)
        for index, layer in enumerate(layers)
        for part, (heads, width) in (("key", layer.key), ("value", layer.value))
    }


def _cross_cache(
    prefix: str, layers: Sequence[CacheLayer], crossed: Sequence[CacheLayer], length: str, encoded: str
) -> Shapes:
    """Layer by layer: its own key and value, then those of the encoder's states."""
    named: dict[str, Dimensions] = {}
    for index, (own, cross) in enumerate(zip(layers, crossed, strict=True)):
        for role, layer, size in (("decoder", own, length), ("encoder", cross, encoded)):
            for part, (heads, width) in (("key", layer.key), ("value", layer.value)):
                named[f"{prefix}{index}.{role}.{part}"] = (BATCH, heads, size, width)
    return named
