"""Files that are left out of a changed checkpoint, because they would go on saying what was true before."""

from __future__ import annotations

from fnmatch import fnmatchcase

from vocabsurgeon.checkpoint.edits import OmitFile
from vocabsurgeon.checkpoint.source import Checkpoint

_WEIGHTS = "holds the old weights in another format"
_CONVERTED = "is written as safetensors"
_EXPORT = "is an export of the old weights"
_TRAINING = "is training state that no longer fits the tables"
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("pytorch_model*.bin", _WEIGHTS),
    ("pytorch_model*.bin.index.json", _WEIGHTS),
    ("tf_model*", _WEIGHTS),
    ("flax_model*", _WEIGHTS),
    ("rust_model.ot", _WEIGHTS),
    ("model.ckpt*", _WEIGHTS),
    ("consolidated*", _WEIGHTS),
    ("*.gguf", _WEIGHTS),
    ("*.safetensors", _WEIGHTS),
    ("*.safetensors.index.json", _WEIGHTS),
    ("onnx/*", _EXPORT),
    ("*.onnx", _EXPORT),
    ("*.onnx_data*", _EXPORT),
    ("*.onnx.data", _EXPORT),
    ("openvino*", _EXPORT),
    ("coreml/*", _EXPORT),
    ("*.mlpackage/*", _EXPORT),
    ("*.tflite", _EXPORT),
    ("optimizer.*", _TRAINING),
    ("optimizer_*", _TRAINING),
    ("scheduler.*", _TRAINING),
    ("scaler.pt", _TRAINING),
    ("global_step*", _TRAINING),
    ("pytorch_model_fsdp*", _TRAINING),
    ("latest", _TRAINING),
)


def stale_files(source: Checkpoint, *, tensors_change: bool = True) -> tuple[OmitFile, ...]:
    """What to leave out when `source` changes: what its tensors no longer fit, where those change, and weights in
    torch's own format, which are always written as safetensors. Safetensors that are read are never among it.
    """
    read = source.shards.files
    converted = tuple(OmitFile(name, _CONVERTED) for name in read if source.shards.pickled)
    others = (name for name in source.files if name not in read) if tensors_change else ()
    return (*converted, *(OmitFile(name, reason) for name in others if (reason := _reason(name)) is not None))


def _reason(name: str) -> str | None:
    """Patterns fit the whole name, a folder it begins with, or (in a folder below) the name behind the last `/`."""
    last = name.rpartition("/")[2]
    for pattern, reason in _PATTERNS:
        if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*") or fnmatchcase(last, pattern):
            return reason
    return None
