"""How a transformers model is called, and where its answers are: what differs by class, asked of the class itself."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.signature import POSITIONS, TYPES, CacheLayer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

_CACHE_NAMES = ("cache", "past_key_values")
USE_CACHE = "use_cache"
_OTHER_STATES = ("conv_states", "recurrent_states")
"""What a layer of Mamba's kind keeps, in hybrid models beside keys and values."""
Pairs = list[tuple["torch.Tensor", "torch.Tensor"]]


def accepts(model: PreTrainedModel, name: str) -> bool:
    """Whether the model's forward pass names the argument `name`."""
    return name in inspect.signature(model.forward).parameters


def accepts_positions(model: PreTrainedModel) -> bool:
    """Whether the model reads `position_ids`; Bloom, say, takes positions from the mask alone."""
    return accepts(model, POSITIONS)


def tells_segments(model: PreTrainedModel) -> bool:
    """Whether the model has more than one token type; RoBERTa names the argument and has one."""
    kinds = getattr(model.config, "type_vocab_size", None)
    return accepts(model, TYPES) and isinstance(kinds, int) and kinds > 1


def vocabulary_rows(model: PreTrainedModel) -> int:
    """How many ids the model can read: rows of its input table. Perceiver names what is none as that."""
    embedding: Any = model.get_input_embeddings()
    table = getattr(embedding, "weight", None)
    return int(model.config.vocab_size if table is None else table.shape[0])


def uses_cache(model: PreTrainedModel, wanted: bool) -> dict[str, bool]:
    """`use_cache` as an argument, where the model takes it."""
    return {USE_CACHE: wanted} if accepts(model, USE_CACHE) else {}


def cache_of(outputs: Any) -> Any:
    """The cache object that a forward pass gave back, None without one."""
    return next((outputs.get(name) for name in _CACHE_NAMES if outputs.get(name) is not None), None)


def cache_argument(model: PreTrainedModel) -> str:
    """What the model calls the cache it is given: transformers 5.24 renamed it, and warns about the old name."""
    return next((name for name in _CACHE_NAMES if accepts(model, name)), _CACHE_NAMES[-1])


def cache_pairs(cache: Any) -> Pairs:
    """Keys and values of each layer of a transformers cache."""
    return [(layer.keys, layer.values) for layer in cache.layers]


def cache_layers(cache: Any) -> tuple[CacheLayer, ...] | None:
    """Heads and widths of a cache's layers, None where it is not one key and one value `[batch, heads, length, width]`
    a layer: the states of Mamba and its like, or no cache at all."""
    try:
        if any(hasattr(layer, name) for layer in cache.layers for name in _OTHER_STATES):
            return None
        pairs = cache_pairs(cache)
        shapes = [(tuple(key.shape), tuple(value.shape)) for key, value in pairs]
    except (AttributeError, TypeError):
        return None
    if not shapes or any(len(shape) != 4 for pair in shapes for shape in pair):
        return None
    return tuple(CacheLayer((key[1], key[3]), (value[1], value[3])) for key, value in shapes)
