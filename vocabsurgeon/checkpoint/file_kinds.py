"""What a file of a checkpoint folder is, by its name: one table over every file, `unknown` at its end. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

from vocabsurgeon.checkpoint.file_names import PROCESSOR_FILES, TOKENIZER_FILES


class FileKind(StrEnum):
    """The kinds of docs/formats.md."""

    WEIGHTS = "weights"
    """The model's own, as they are read, and their index."""
    WEIGHTS_COPY = "copy of the weights"
    """The model's own weights again: in another format, precision or name."""
    OTHER_WEIGHTS = "weights of something else"
    """Of a further module of a pipeline, of another model in the same repository."""
    ADAPTER = "adapter"
    TRAINING = "training state"
    EXPORT = "export"
    """The model in a runtime's format."""
    CONFIG = "config"
    TOKENIZER = "tokenizer"
    PROCESSOR = "processor"
    CODE = "code"
    DOCUMENTATION = "documentation"
    BOOKKEEPING = "book-keeping"
    """Of git or of a download: no part of the checkpoint."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FileRow:
    """One row. A pattern without `/` is a name in the folder itself; `**/` before it any folder; `x/**` all below.

    `stale_if`: changes of the checkpoint (`weights`, `tokens`, `rows`) after which the file says what no longer is so.
    `reason` says it. `with_export`: whether an ONNX export takes it along.
    """

    kind: FileKind
    patterns: tuple[str, ...]
    stale_if: tuple[str, ...] = ()
    reason: str = ""
    with_export: bool = True


_WEIGHT_ENDINGS = ("safetensors", "bin", "pt", "pth", "ckpt", "h5", "msgpack", "npz", "ot")
_BELOW = tuple(f"*/**/*.{ending}" for ending in _WEIGHT_ENDINGS)
_BESIDE = tuple(f"*.{ending}" for ending in _WEIGHT_ENDINGS)

_STATE = FileRow(
    FileKind.TRAINING,
    (
        "checkpoint-*/**",
        "global_step*/**",
        "**/optimizer*.pt",
        "**/optimizer*.bin",
        "**/optimizer*.safetensors",
        "optimizer_*/**",
        "**/scheduler.pt",
        "**/scheduler.bin",
        "**/scaler.pt",
        "**/rng_state*.pth",
        "**/random_states_*.pkl",
        "pytorch_model_fsdp*",
        "pytorch_model_fsdp*/**",
    ),
    ("rows", "weights"),
    "is training state of the old tables: resuming from it does not fit",
    with_export=False,
)
_RECORD_OF_TRAINING = FileRow(
    FileKind.TRAINING,
    (
        "**/trainer_state.json",
        "**/training_args.*",
        "**/train*_results.json",
        "**/*_results.json",
        "**/trainer_log.jsonl",
        "**/log_history.json",
        "runs/**",
        "logs/**",
        "**/events.out.tfevents*",
        "latest",
    ),
    with_export=False,
)
COPY = FileRow(
    FileKind.WEIGHTS_COPY,
    (
        "model*.safetensors",
        "model*.safetensors.index*.json",
        "pytorch_model*.bin",
        "pytorch_model*.bin.index*.json",
        "pytorch_model*.pt",
        "tf_model*.h5",
        "tf_model*.h5.index.json",
        "flax_model*.msgpack",
        "flax_model*.msgpack.index.json",
        "rust_model.ot",
        "model.ckpt*",
        "consolidated*.safetensors",
        "consolidated*.pth",
        "consolidated*.safetensors.index.json",
        "original/**/consolidated*.pth",
        "original/**/consolidated*.safetensors",
        "original/**/model*.safetensors",
        "original/**/model*.safetensors.index.json",
    ),
    reason="holds the old weights in another format",
    with_export=False,
)
NAMED_ALIKE = ("model*.safetensors", "pytorch_model*.bin", "pytorch_model*.pt")
"""Names that further modules have too (`model-vision.safetensors`, `pytorch_model_projector.bin`): content decides."""
VARIANTS = (
    "model.*safetensors",
    "model-?????-of-?????.safetensors",
    "pytorch_model.*",
    "pytorch_model-?????-of-?????.*",
)
"""Those of them that transformers asks for: by `variant` (`_add_variant`, 5.24), or by number."""
OTHER_WEIGHTS = FileRow(
    FileKind.OTHER_WEIGHTS, (*_BELOW, *_BESIDE, "**/*.safetensors.index*.json", "**/*.bin.index*.json")
)
_EXPORT = FileRow(
    FileKind.EXPORT,
    (
        "**/*.onnx",
        "**/*.onnx_data*",
        "**/*.onnx.data",
        "onnx/**",
        "**/*.gguf",
        "**/*.ggml",
        "**/*.llamafile",
        "**/*.tflite",
        "**/*.mlmodel",
        "**/*.mlpackage/**",
        "**/*.mlmodelc/**",
        "coreml/**",
        "openvino*",
        "openvino*/**",
        "**/*.engine",
        "**/*.task",
        "**/*.litertlm",
        "**/*.pte",
    ),
    ("weights", "tokens"),
    "is an export of the old weights: make it anew",
    with_export=False,
)
_ADAPTER = FileRow(
    FileKind.ADAPTER,
    ("**/adapter_model*", "**/adapter_config.json", "**/adapter.*", "**/non_lora_trainables.bin"),
    ("rows",),
    "was trained on a base with another number of rows",
    with_export=False,
)
_TOKENIZER_OF_ITS_OWN = FileRow(
    FileKind.TOKENIZER,
    ("tekken*.json", "**/*.tiktoken", "original/**/tokenizer*", "tokenizer.model.v*"),
    ("tokens",),
    "does not know the new tokens: its readers look at no other file",
)
_ORIGINAL_CONFIG = FileRow(
    FileKind.CONFIG,
    ("params.json", "original/**/params.json"),
    ("rows", "weights"),
    "still states the old vocabulary size and tying",
)
_FURTHER_TOKENIZER = FileRow(
    FileKind.TOKENIZER,
    tuple(f"*/**/{name}" for name in sorted(TOKENIZER_FILES)),
    ("tokens",),
    "is a tokenizer in a sub-folder: it does not know the new tokens",
)

ROWS: tuple[FileRow, ...] = (
    _STATE,
    _RECORD_OF_TRAINING,
    _ADAPTER,
    COPY,
    _EXPORT,
    _TOKENIZER_OF_ITS_OWN,
    _ORIGINAL_CONFIG,
    FileRow(
        FileKind.TOKENIZER,
        (*sorted(TOKENIZER_FILES), "additional_chat_templates/**", "chat_template*", "chat_templates/**"),
    ),
    FileRow(
        FileKind.PROCESSOR, tuple(pattern for name in sorted(PROCESSOR_FILES) for pattern in (name, f"*/**/{name}"))
    ),
    OTHER_WEIGHTS,
    _FURTHER_TOKENIZER,
    FileRow(
        FileKind.CONFIG,
        (
            "**/config.json",
            "**/configuration.json",
            "**/generation_config.json",
            "**/quantize_config.json",
            "**/quant_config.json",
            "**/hf_quant_config.json",
            "**/recipe.yaml",
            "**/modules.json",
            "**/config_sentence_transformers.json",
            "**/sentence_*_config.json",
            "**/model_index.json",
            "**/scheduler_config.json",
            "**/mergekit_config.y*ml",
            "**/config.y*ml",
            "**/*_config.json",
            "**/*_config.y*ml",
            "**/label*.json",
            "**/id2label.json",
        ),
    ),
    FileRow(FileKind.CODE, ("**/*.py", "**/*.ipynb", "**/*.sh", "**/requirements*.txt", "**/Dockerfile")),
    FileRow(
        FileKind.DOCUMENTATION,
        (
            *(f"**/{name}*" for name in ("LICENSE", "LICENCE", "NOTICE", "README", "USE_POLICY", "COPYING")),
            *(f"**/*.{ending}" for ending in ("md", "rst", "pdf", "png", "jpg", "jpeg", "gif", "svg", "webp", "bib")),
            "**/.gitattributes",
            "**/.gitignore",
            "**/.gitkeep",
            "**/.DS_Store",
            "**/CITATION*",
        ),
    ),
)
"""The first row that fits counts."""

UNKNOWN = FileRow(FileKind.UNKNOWN, ("**",), reason="is of no known kind", with_export=True)


@cache
def row_of(name: str) -> FileRow:
    """The row of file `name`, a path with `/` below the folder; `UNKNOWN` where none fits."""
    return next((row for row in ROWS if any(fits(name, pattern) for pattern in row.patterns)), UNKNOWN)


def fits(name: str, pattern: str) -> bool:
    """Whether `pattern` is for the path `name`: part by part, `**` standing for any number of folders."""
    return _fits(tuple(name.split("/")), tuple(pattern.split("/")))


def _fits(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    if not patterns or not parts:
        return not patterns and not parts
    if patterns[0] == "**":
        return len(patterns) == 1 or _fits(parts, patterns[1:]) or _fits(parts[1:], patterns)
    return fnmatchcase(parts[0], patterns[0]) and _fits(parts[1:], patterns[1:])
