"""Rotary embeddings whose frequencies follow the length (`rope_type` dynamic), as an expression of the positions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TYPE = "dynamic"


@contextmanager
def dynamic_rotary(model: PreTrainedModel) -> Iterator[None]:
    """Inside the block such modules compute their frequencies from the positions of the call.

    The models keep them between calls, and take new ones by branches on the length. For a text that grows, and for one
    within the trained length, both are the same; after a longer text the models answer a shorter one beyond that length
    by the longer one's frequencies, and the graph by its own.
    """
    with ExitStack() as stack:
        for module in model.modules():
            if getattr(module, "rope_type", None) == _TYPE and hasattr(type(module).forward, "__wrapped__"):
                stack.enter_context(mock.patch.object(module, "forward", _by_positions(module)))
        yield


def _by_positions(module: Any) -> Any:
    """The module's own rotation, without the decorator that keeps frequencies, of frequencies by length."""
    import torch
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rotated = inspect.unwrap(type(module).forward)
    trained = module.original_max_seq_len

    def by_positions(x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        length = position_ids.max() + 1
        stretched, _ = ROPE_INIT_FUNCTIONS[_TYPE](module.config, x.device, seq_len=length)
        frequencies = torch.where(length > trained, stretched, module.original_inv_freq)
        return rotated(_With(module, frequencies), x, position_ids)

    return by_positions


class _With:
    """A module's attributes, but for its frequencies."""

    def __init__(self, module: Any, frequencies: Any) -> None:
        self._module, self.inv_freq = module, frequencies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
