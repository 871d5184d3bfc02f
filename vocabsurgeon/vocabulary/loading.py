"""A checkpoint as transformers loads it, and what its load report says. Torch and transformers are imported on call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError

_AUTO = (
    ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    ("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),
    ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    ("AutoModelForImageTextToText", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"),
)
"""Auto class → its mapping, for a config.json that names no class: the first that knows the type."""
_FOREIGN = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError, AssertionError)
"""What model classes raise at files that they do not take."""


@dataclass(frozen=True)
class LoadedModel:
    """A model in eval mode on the CPU, and the keys that its load report names, sorted."""

    model: Any
    missing: tuple[str, ...]
    """Parameters and buffers that are in no file, as the load report names them."""
    unexpected: tuple[str, ...]
    """Tensors that no parameter took."""

    @property
    def random(self) -> tuple[str, ...]:
        """The missing keys that a save would have written: their numbers are left to chance, or to the class's start.

        Tied parameters are not among the missing. What a class never saves (Marian's positions) it computes at load.
        """
        unsaved = set(getattr(self.model, "_keys_to_ignore_on_save", None) or ())
        return tuple(key for key in self.missing if key not in unsaved)

    @property
    def input_table(self) -> Any | None:
        """The input embedding's parameter `[V, D]`, None where the class names none."""
        return _weight(self.model, "get_input_embeddings")

    @property
    def output_table(self) -> Any | None:
        """The LM head's parameter `[V, D]`, None where the class has none."""
        return _weight(self.model, "get_output_embeddings")


def load_model(source: Checkpoint, dtype: str = "auto", trust_remote_code: bool = False) -> LoadedModel:
    """Load `source` by the class that its config names, in `dtype` (torch's name, or `auto`: the checkpoint's own).

    Code that comes with the checkpoint runs with `trust_remote_code` alone. Raises `CheckpointError` where transformers
    does not load it, with the first line of what it says.
    """
    try:
        with silenced():
            model, info = _loaded(source, dtype, trust_remote_code)
    except _FOREIGN as error:
        raise _not_loadable(source, error) from error
    for key, stored, wanted in sorted(info["mismatched_keys"]):
        reason = f"{key} is {list(stored)} in the file, the class wants {list(wanted)}"
        raise CheckpointError(f"transformers does not load it: {reason}", where=source.root)
    return LoadedModel(model.eval(), *(tuple(sorted(info[name])) for name in ("missing_keys", "unexpected_keys")))


def _loaded(source: Checkpoint, dtype: str, trust_remote_code: bool) -> tuple[Any, dict[str, Any]]:
    """Sizes that do not fit are told in the report instead of raised: the exception names none of them."""
    import torch

    loaded: tuple[Any, dict[str, Any]] = _loader(source, trust_remote_code).from_pretrained(
        source.root,
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        local_files_only=True,
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    return loaded


def _loader(source: Checkpoint, trust_remote_code: bool) -> Any:
    """The class of config.json where transformers has it, else an auto class."""
    import transformers
    from transformers.models.auto import modeling_auto

    named, model_type = source.config.architecture, source.config.model_type
    remote = trust_remote_code and isinstance(source.config.data.get("auto_map"), dict)
    found: Any = None if remote or not named else getattr(transformers, named, None)
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
        return found
    autos = source.config.data["auto_map"] if remote else {}
    for auto, mapping in _AUTO:
        if auto in autos or (not remote and model_type in getattr(modeling_auto, mapping)):
            return getattr(transformers, auto)
    return transformers.AutoModel


def _not_loadable(source: Checkpoint, error: Exception) -> CheckpointError:
    text = str(error).strip()
    reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    hint = "pass --trust-remote-code if you trust its code" if "trust_remote_code" in text else None
    return CheckpointError(f"transformers does not load it: {reason[:300]}", where=source.root, hint=hint)


def _weight(model: Any, getter: str) -> Any | None:
    """The tensor of the module that `getter` gives; classes without one say so by None or by raising."""
    import torch

    try:
        module = getattr(model, getter)()
    except (NotImplementedError, AttributeError):
        return None
    weight = getattr(module, "weight", None)
    return weight if isinstance(weight, torch.Tensor) else None
