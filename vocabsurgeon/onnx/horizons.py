"""How long a context may get, and the lengths after which a model's attention or positions follow another rule."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUDGET = 2e12
"""Parameters × tokens that a context beyond a horizon may cost: some minutes on two cores."""
BEYOND = 24
"""How many tokens such a context goes on."""
_UNSTATED = 4096
_LENGTHS = ("max_position_embeddings", "max_target_positions")
_RATES = "compress_rates"
"""Config key: tokens that are compressed to one; an index chooses among those of the least."""
_WINDOWS = {
    "sliding_window": "window",
    "attention_window": "window",
    "attention_window_size": "window",
    "window_size": "window",
    "local_radius": "window",
    "attention_chunk_size": "attention chunk",
    _RATES: "compressed window",
    "index_topk": "index",
}
"""Config key → what it is the size of, in tokens; a list has one for each layer, a mapping one for each kind of it."""
_BLOCKS = ("index_topk_blocks", "index_block_size")
"""Config keys whose product is the size of an index in tokens."""


def horizons(config: Any) -> dict[str, int]:
    """Name → tokens after which attention or positions of a text config follow another rule."""
    found: dict[str, int] = {}
    if getattr(config, "use_sliding_window", True):
        for key, name in _WINDOWS.items():
            largest = max(stated(config, key), default=0)
            if name not in found and largest > 0:
                found[name] = largest
    blocks = [max(stated(config, key), default=0) for key in _BLOCKS]
    if all(blocks):
        found["index"] = prod(blocks)
    elif "index" in found:
        found["index"] *= min(stated(config, _RATES), default=1)
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
        found["original context"] = int(rope["original_max_position_embeddings"])
    return found


def stated(config: Any, name: str) -> list[int]:
    """The numbers that a config states as `name`: one, one for each layer or kind of layer, or none. Where layers have
    configs of their own, transformers refuses to ask the config as a whole."""
    levels = config.per_layer_config if getattr(config, "is_heterogeneous", False) else [config]
    values = [getattr(level, name, None) for level in levels]
    several = [list(value.values()) if isinstance(value, dict) else value for value in values]
    flat = [size for value in several for size in (value if isinstance(value, list | tuple) else [value])]
    return [size for size in flat if isinstance(size, int)]


def most_tokens(model: PreTrainedModel, least: int) -> int:
    """How long a context may get by the config, never below `least`."""
    config = model.config.get_text_config()
    lengths = [size for name in _LENGTHS for size in stated(config, name)]
    return max(least, min(lengths)) if lengths else _UNSTATED


def too_long(model: PreTrainedModel, tokens: int) -> bool:
    """Whether contexts of `tokens` together cost more than `BUDGET`."""
    return sum(parameter.numel() for parameter in model.parameters()) * tokens > BUDGET
