"""Longformer and LED, as a graph can hold them: any number of windows, and no tokens that attend globally."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from vocabsurgeon.onnx.horizons import stated

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ASKED = "is_global_attn"
"""The layers' argument: whether any token of the batch is global. The models ask the mask, which nothing can trace,
and a graph has no input that would name such tokens."""
_FILLS = {"input_ids": True, "position_ids": True, "attention_mask": False, "token_type_ids": False}
"""An encoder's inputs with a value for each token → whether they are filled with the padding id; else with 0."""


@contextmanager
def local_attention(model: PreTrainedModel) -> Iterator[None]:
    """Inside the block a model with windows does the same for every length, whatever the example's.

    Layers are told that no token attends globally, the number of windows stays an expression of the length, and
    encoders get whole windows and have what filled the last one cut off: they would do so by themselves, but by a
    branch, so that a trace knows only one of a full window and a filled one.
    """
    asking = [module for module in model.modules() if _ASKED in inspect.signature(module.forward).parameters]
    windowed = [module for module in model.modules() if hasattr(module, "_pad_to_window_size")]
    with ExitStack() as stack:
        for module in asking:
            stack.callback(module.register_forward_pre_hook(_none, with_kwargs=True).remove)
        for module in windowed:
            stack.enter_context(mock.patch.object(module, "forward", _in_whole_windows(module)))
        if windowed:
            stack.enter_context(_whole_quotients())
        yield


def _none(module: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return given, named | {_ASKED: False}


def _in_whole_windows(encoder: Any) -> Any:
    """The encoder's own `forward`, given whole windows and with the states of the text alone as its result."""
    import torch

    forward, config = encoder.forward, encoder.config
    names = list(inspect.signature(forward).parameters)
    window = max(stated(config, "attention_window"))

    def in_whole_windows(*given: Any, **named: Any) -> Any:
        named |= dict(zip(names, given, strict=False))
        length = named["input_ids"].shape[1]
        missing = -(-length // window) * window - length
        for name, by_id in _FILLS.items():
            if named.get(name) is not None:
                value = config.pad_token_id if by_id else 0
                named[name] = torch.nn.functional.pad(named[name], (0, missing), value=value)
        outputs = forward(**named)
        outputs["last_hidden_state"] = outputs["last_hidden_state"][:, :length]
        return outputs

    return in_whole_windows


def _whole_quotients() -> Any:
    """`torch.div` of two sizes gives a size."""
    import torch

    original = torch.div

    def div(numerator: Any, denominator: Any, **named: Any) -> Any:
        sizes = not isinstance(numerator, torch.Tensor) and not isinstance(denominator, torch.Tensor)
        return numerator // denominator if sizes else original(numerator, denominator, **named)

    return mock.patch.object(torch, "div", div)
