"""Longformer and LED, as a graph can hold them: windows of any number, and no tokens that attend globally."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ASKED = "is_global_attn"
"""The layers' argument: whether any token of the batch is global. The models ask the mask, which nothing can trace,
and a graph has no input that would name such tokens."""


@contextmanager
def local_attention(model: PreTrainedModel) -> Iterator[None]:
    """Inside the block every layer that asks whether a token attends globally is told that none does, and the number
    of windows stays an expression of the length where the models make a tensor of it."""
    asking = [module for module in model.modules() if _ASKED in inspect.signature(module.forward).parameters]
    with ExitStack() as stack:
        for module in asking:
            stack.callback(module.register_forward_pre_hook(_none, with_kwargs=True).remove)
        if asking:
            stack.enter_context(_whole_quotients())
        yield


def _none(module: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return given, named | {_ASKED: False}


def _whole_quotients() -> Any:
    """`torch.div` of two sizes gives a size."""
    import torch

    original = torch.div

    def div(numerator: Any, denominator: Any, **named: Any) -> Any:
        sizes = not isinstance(numerator, torch.Tensor) and not isinstance(denominator, torch.Tensor)
        return numerator // denominator if sizes else original(numerator, denominator, **named)

    return mock.patch.object(torch, "div", div)
