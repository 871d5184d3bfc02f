"""`Checkpoint.open`: a checkpoint on disk as names, headers and JSON. Read-only, and never holds weights."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vocabsurgeon.checkpoint.config import CONFIG, Config
from vocabsurgeon.checkpoint.folder import list_files
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.checkpoint.shards import Shards, read_shards
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.errors import CheckpointError, UsageError


@dataclass(frozen=True)
class Checkpoint:
    """A folder in the `from_pretrained` layout: config.json, weights, usually a tokenizer."""

    root: Path
    files: tuple[str, ...]
    config: Config
    shards: Shards

    @classmethod
    def open(cls, path: Path | str) -> Checkpoint:
        """Read names, headers and config.json below `path`; a file of it that cannot be trusted is an error here.

        Raises `UsageError` where `path` is not a folder of the right kind (saying what it is and what to do),
        `CheckpointError` and its kin where a file is unreadable, truncated or contradicts another.
        """
        root = Path(path)
        _require_folder(root, str(path))
        files = list_files(root)
        if CONFIG not in files:
            raise _not_a_checkpoint(root, files)
        config = Config.parse(read_text(root / CONFIG, CONFIG))
        return cls(root, files, config, read_shards(root))

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensor key → where it lies."""
        return self.shards.tensors

    @cached_property
    def tokenizer(self) -> TokenizerFiles | None:
        """The tokenizer files as data, None where the folder has none."""
        return TokenizerFiles.read(self)

    def has(self, name: str) -> bool:
        """Whether the folder holds file `name`."""
        return name in self.files

    def path(self, name: str) -> Path:
        """Where file `name` lies."""
        return self.root / name

    def read_bytes(self, name: str) -> bytes:
        """The content of file `name`; raises `CheckpointError` where it cannot be read."""
        try:
            return self.path(name).read_bytes()
        except OSError as error:
            raise CheckpointError(f"cannot be read: {error.strerror}", where=name) from error

    def read_text(self, name: str) -> str:
        """The content of file `name` as UTF-8 with its line ends kept; raises `CheckpointError` where it is none."""
        return read_text(self.path(name), name)

    def rows(self, key: str, axis: int = 0) -> TableReader:
        """A reader over tensor `key`, by rows along `axis`."""
        info = self.tensors[key]
        return TableReader(self.path(info.file), info, axis)


def read_text(path: Path, name: str) -> str:
    """The file's text, line ends kept; raises `CheckpointError` where it is unreadable or not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot be read: {error.strerror}", where=name) from error
    except UnicodeDecodeError as error:
        raise CheckpointError("is not UTF-8 text", where=name) from error


def _require_folder(root: Path, given: str) -> None:
    if "\x00" in given:
        raise UsageError("is not a path", where=given)
    if os.path.isdir(root):
        if not os.access(root, os.R_OK | os.X_OK):
            raise CheckpointError("cannot be read: permission denied", where=root)
        return
    if os.path.exists(root):
        raise _single_file(root)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", given) and not os.path.exists(root.parent):
        name = given.split("/")[1]
        raise UsageError(
            "is no folder here; it looks like a hub repo id",
            where=given,
            hint=f"run `hf download {given} --local-dir {name}` and name that folder",
        )
    raise UsageError("does not exist", where=given, hint="name the folder of a checkpoint")


_LONE = "is a lone pickled weights file; name the folder of a checkpoint with safetensors or pytorch_model.bin"
_SINGLE_FILES = {
    ".safetensors": "is a lone weights file; name the folder that holds it together with config.json",
    ".gguf": "is a GGUF file; load it with transformers (gguf_file=…), save_pretrained it, and name that folder",
    ".onnx": "is an ONNX file, not a checkpoint; `vocabsurgeon audit` reads it",
    ".bin": "is a lone pickled weights file; name the folder that holds it together with config.json",
    ".pt": _LONE,
    ".pth": _LONE,
}


def _single_file(path: Path) -> UsageError:
    reason = _SINGLE_FILES.get(path.suffix.lower(), "is a file; name the folder of a checkpoint")
    return UsageError(reason, where=path)


def _not_a_checkpoint(root: Path, files: tuple[str, ...]) -> CheckpointError:
    if "adapter_config.json" in files:
        return CheckpointError(
            "is a PEFT adapter, not a whole checkpoint",
            where=root,
            hint="merge it first: PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(folder)",
        )
    if any(name.endswith(".gguf") for name in files):
        return CheckpointError(
            "holds a GGUF file, not a checkpoint",
            where=root,
            hint="load it with transformers (gguf_file=…), save_pretrained it, and name that folder",
        )
    if any(name.endswith(".onnx") for name in files):
        return CheckpointError("is an ONNX export, not a checkpoint", where=root, hint="`vocabsurgeon audit` reads it")
    return CheckpointError(
        "is not a checkpoint: it has no config.json", where=root, hint="name the folder that save_pretrained wrote"
    )
