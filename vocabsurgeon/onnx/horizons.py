"""How long a context may get, and the lengths after which a model's attention or positions follow another rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUDGET = 2e12
"""Parameters × tokens that a context beyond a horizon may cost: some minutes on two cores."""
BEYOND = 24
"""How many tokens such a context goes on."""
_UNSTATED = 4096
_LENGTHS = ("max_position_embeddings", "max_target_positions")


def horizons(model: PreTrainedModel) -> dict[str, int]:
    """Name → tokens after which attention or positions follow another rule."""
    config: Any = model.config.get_text_config()
    found = {}
    window = getattr(config, "sliding_window", None)
    if isinstance(window, int) and getattr(config, "use_sliding_window", True):
        found["window"] = window
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
        found["original context"] = int(rope["original_max_position_embeddings"])
    return found


def most_tokens(model: PreTrainedModel, least: int) -> int:
    """How long a context may get by the config, never below `least`."""
    config = model.config.get_text_config()
    stated = [size for name in _LENGTHS if isinstance(size := getattr(config, name, None), int)]
    return max(least, min(stated)) if stated else _UNSTATED


def too_long(model: PreTrainedModel, tokens: int) -> bool:
    """Whether a context of `tokens` costs more than `BUDGET`."""
    return sum(parameter.numel() for parameter in model.parameters()) * tokens > BUDGET
