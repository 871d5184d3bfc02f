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
_STATES = ("past_conv.", "past_ssm.", "past_recurrent.")
"""Fixed in size, where keys and values grow; a reader starts with zeros. `past_conv.0` goes on as `present_conv.0`."""
_GROWN = {PAST: TOTAL, ENCODED_PAST: ENCODED}

Dimensions = tuple[str | int, ...]
Shapes = Mapping[str, Dimensions]


@dataclass(frozen=True)
class KeptTensor:
    """A tensor that a layer keeps from call to call: the input that takes it, with its dimensions. `wide`: float32 in
    graphs of any dtype."""

    name: str
    dimensions: Dimensions
    wide: bool = False


@dataclass(frozen=True)
class Signature:
    """What a graph takes and gives: name → dimensions, in graph order. `wide`: the inputs that are float32 in graphs of
    any dtype."""

    inputs: Shapes
    outputs: Shapes
    wide: frozenset[str] = frozenset()

    @property
    def caches(self) -> bool:
        """Whether the graph can continue from a cache."""
        return bool(past_names(list(self.inputs)))


def decoder(kept: Sequence[KeptTensor], rows: int) -> Signature:
    """A decoder-only model's: logits of `rows`, and what its layers keep, nothing without a cache."""
    total = TOTAL if kept else SEQUENCE
    inputs: Shapes = {IDS: (BATCH, SEQUENCE), MASK: (BATCH, total), POSITIONS: (BATCH, SEQUENCE)}
    return _with_cache(inputs, {LOGITS: (BATCH, SEQUENCE, rows)}, kept)


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


def cross_decoder(kept: Sequence[KeptTensor], rows: int, width: int, masked: bool) -> Signature:
    """The decoder of an encoder–decoder model: what its layers keep of its own tokens and of the encoder's states
    `[batch, encoder length, width]`, nothing without a cache. `masked`: it reads the encoder's mask."""
    fixed: Shapes = {STATES_MASK: (BATCH, ENCODED)} if masked else {}
    inputs: Shapes = {**fixed, IDS: (BATCH, SEQUENCE), STATES: (BATCH, ENCODED, width)}
    return _with_cache(inputs, {LOGITS: (BATCH, SEQUENCE, rows)}, kept)


def growing_name(layer: int, part: str) -> str:
    """The cache input of what has a number a token, as keys and values have."""
    return f"{_PAST}{layer}.{part}"


def state_name(layer: int, kind: str, number: int | None) -> str:
    """The cache input of a state of one size; `number`: which, where a layer has several of a kind."""
    return f"past_{kind}.{layer}" + ("" if number is None else f".{number}")


def past_names(inputs: Sequence[str]) -> list[str]:
    """The cache inputs among a graph's inputs."""
    return [name for name in inputs if name.startswith((_PAST, *_STATES))]


def present_name(past: str) -> str:
    """The output that continues cache input `past`."""
    return past.replace(_PAST, _PRESENT, 1) if past.startswith(_PAST) else past.replace("past", "present", 1)


def is_state(past: str) -> bool:
    """Whether a cache input takes a state of one size."""
    return past.startswith(_STATES)


def layer_of(past: str) -> int:
    """Which layer a cache input belongs to."""
    return int(past.split(".")[1])


def part_of(past: str) -> str:
    """What of its layer a cache input takes: `key`, `decoder.value`, `conv`."""
    kind, _, *part = past.split(".")
    return ".".join(part) if past.startswith(_PAST) else ".".join((kind.removeprefix("past_"), *part))


def _with_cache(inputs: Shapes, outputs: Shapes, kept: Sequence[KeptTensor]) -> Signature:
    past = {tensor.name: tensor.dimensions for tensor in kept}
    present = {
        present_name(name): tuple(_GROWN.get(size, size) if isinstance(size, str) else size for size in dimensions)
        for name, dimensions in past.items()
    }
    wide = frozenset(tensor.name for tensor in kept if tensor.wide)
    return Signature({**inputs, **past}, {**outputs, **present}, wide)
