"""One forward pass to see what a model gives back, its failure told in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.quiet import quiet
from vocabsurgeon.errors import OnnxError

if TYPE_CHECKING:
    import torch


def answer(module: torch.nn.Module, **inputs: Any) -> Any:
    """What `module` answers to `inputs`; raises `OnnxError` where it cannot run on them."""
    import torch

    try:
        with torch.no_grad(), quiet():
            return module(**inputs)
    except Exception as error:  # a model class raises what it likes for inputs that it does not take
        taken = " and ".join(name for name in inputs if inputs[name] is not None and name != "use_cache")
        raise OnnxError(
            f"the model does not run on {taken} alone: {first_line(error)}",
            hint="models that need other inputs cannot be exported",
        ) from error


def first_line(error: BaseException) -> str:
    """An error of a library in one line: its class and the first line of its message."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given")
    return f"{type(error).__name__}: {reason}"
