"""How a transformers model is called, and where its answers are: what differs by class, asked of the class itself."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.signature import POSITIONS, TYPES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_CACHE_NAMES = ("cache", "past_key_values")
USE_CACHE = "use_cache"


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
