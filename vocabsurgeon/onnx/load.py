"""The checkpoint as a torch model in one dtype, every parameter from the files, nothing left to chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEXT_GENERATION = "text-generation"
TASKS = ("auto", TEXT_GENERATION)


def choose_task(source: Checkpoint, requested: str) -> str:
    """The task to export for. Raises `UsageError` for an unknown one, `OnnxError` where the model is no decoder."""
    if requested not in TASKS:
        raise UsageError(f"unknown task {requested!r}", hint=f"use one of: {', '.join(TASKS)}")
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as causal

    classes = {name for names in causal.values() for name in ([names] if isinstance(names, str) else names)}
    named = source.config.architecture
    if named in classes or (named is None and source.config.model_type in causal) or "auto_map" in source.config.data:
        return TEXT_GENERATION
    raise OnnxError(
        f"{named or source.config.model_type or 'a model without an architecture'} is no decoder-only language model",
        where=source.root,
        hint="only those are exported for now",
    )


def load_model(source: Checkpoint, dtype: str, trust_remote_code: bool = False) -> PreTrainedModel:
    """The causal language model in `dtype`, in eval mode, on the CPU.

    Raises `OnnxError` where transformers cannot load it, or where a parameter is in no file and would be random.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                source.root,
                dtype=getattr(torch, dtype),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
            )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError) as error:
        raise _not_loadable(source, error) from error
    model, info = loaded
    _require_complete(source, info)
    ready: PreTrainedModel = model.eval()
    return ready


def _not_loadable(source: Checkpoint, error: Exception) -> OnnxError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    hint = "pass --trust-remote-code if you trust its code" if "trust_remote_code" in str(error) else None
    return OnnxError(f"transformers cannot load it: {reason}", where=source.root, hint=hint)


def _require_complete(source: Checkpoint, info: dict[str, Any]) -> None:
    missing = sorted(map(str, info.get("missing_keys") or ()))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise OnnxError(
            f"{missing[0]}{more} is in no file: it would be random",
            where=source.root,
            hint="`vocabsurgeon inspect` tells the tie state; `tie` or `untie` repairs a missing head",
        )
    if info.get("mismatched_keys"):
        raise OnnxError(f"{next(iter(info['mismatched_keys']))} does not fit the config", where=source.root)
