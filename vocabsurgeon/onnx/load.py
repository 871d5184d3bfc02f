"""The checkpoint as a torch model in one dtype, every parameter from the files, nothing left to chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.quiet import quiet
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.training_names import training_names
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.tasks import FEATURES, Task, task_of_class

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_POOLER = "pooler"


def load_model(source: Checkpoint, task: Task, dtype: str, trust_remote_code: bool = False) -> PreTrainedModel:
    """The model for `task` in `dtype`, in eval mode, on the CPU.

    Raises `OnnxError` where transformers cannot load it, or where a parameter is in no file and would be random; a
    pooler may be missing where the last hidden state is wanted, which no pooler changes.
    """
    import torch

    try:
        with quiet():
            loaded: Any = _loader(source, task).from_pretrained(
                source.root,
                dtype=getattr(torch, dtype),
                local_files_only=True,
                use_safetensors=not source.shards.pickled,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        raise _not_loadable(source, error) from error
    model, info = loaded
    _require_complete(source, info, task)
    ready: PreTrainedModel = model.eval()
    return ready


def _loader(source: Checkpoint, task: Task) -> Any:
    """The class that config.json names where the task is its own, else the task's auto class: auto classes do not know
    the text halves of composite models, nor the encoder half of T5 and its like."""
    import transformers

    named = source.config.architecture or ""
    own = None if "auto_map" in source.config.data else getattr(transformers, named, None)
    return own if own is not None and task_of_class(source) is task else getattr(transformers, task.auto_class)


def _not_loadable(source: Checkpoint, error: Exception) -> OnnxError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    hint = "pass --trust-remote-code if you trust its code" if "trust_remote_code" in str(error) else None
    return OnnxError(f"transformers cannot load it: {reason}", where=source.root, hint=hint)


def _require_complete(source: Checkpoint, info: dict[str, Any], task: Task) -> None:
    missing = sorted(map(str, info.get("missing_keys") or ()))
    if task is FEATURES:
        missing = [name for name in missing if _POOLER not in name.split(".")]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        reason = f"{missing[0]}{more} is in no file: it would be random"
        raise OnnxError(reason, where=source.root, hint=_hint(source, missing))
    if info.get("mismatched_keys"):
        raise OnnxError(f"{next(iter(info['mismatched_keys']))} does not fit the config", where=source.root)


def _hint(source: Checkpoint, missing: list[str]) -> str:
    names = training_names(source.tensors, missing)
    if names:
        return f"{names.marks} is in the names of tensors: take it out of them, see docs/training-names.md"
    return "fetch the checkpoint again; where it is the LM head, see `inspect`: `tie` or `untie` repairs that"
