"""Tiny checkpoints built once a run and shared, and what is asked of results.

`shelved` gives a folder to read, `taken` a copy to write into.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.models.tiny import VOCAB, build

Tensors = dict[str, torch.Tensor]
INPUT, HEAD = "model.embed_tokens.weight", "lm_head.weight"
"""Keys of the llama models."""
FAMILIES = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"),
    *("gpt2", "gpt_neox", "opt", "phi", "phi3", "bloom", "falcon"),
)
"""The decoder-only families of the first release."""


@cache
def _shelf() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="vocabsurgeon-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _built(family: str, items: tuple[tuple[str, Any], ...]) -> Path:
    name = "-".join([family, *(f"{key}={value}" for key, value in items)])
    return build(family, _shelf() / name, **dict(items))


def shelved(family: str = "llama", **options: Any) -> Path:
    """The folder of a tiny checkpoint, for reading only; `options` are those of `tests.models.tiny.build`."""
    return _built(family, tuple(sorted(options.items())))


def taken(target: Path, family: str = "llama", **options: Any) -> Path:
    """A copy of `shelved` at `target`."""
    return Path(shutil.copytree(shelved(family, **options), target))


def with_tensors(folder: Path, change: Callable[[Tensors], Any]) -> Path:
    """Let `change` edit the tensors of the single weight file of `folder` in place."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, file, metadata={"format": "pt"})
    return folder


def with_config(folder: Path, **values: Any) -> Path:
    """Set root values of config.json; None removes one."""
    return with_json(folder / "config.json", **values)


def with_json(file: Path, **values: Any) -> Path:
    """Set root values of a JSON file; None removes one. Returns its folder."""
    document = json.loads(file.read_text()) if file.exists() else {}
    document = {key: value for key, value in (document | values).items() if value is not None}
    file.write_text(json.dumps(document, indent=2, ensure_ascii=False))
    return file.parent


def config_of(folder: Path) -> dict[str, Any]:
    """config.json as Python's own parser reads it."""
    document: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return document


def tensors_of(folder: Path) -> Tensors:
    """All tensors of all weight files, as the safetensors library reads them."""
    files = sorted(folder.glob("*.safetensors"))
    return {key: tensor for file in files for key, tensor in load_file(file).items()}


def bits(tensor: torch.Tensor) -> bytes:
    """The tensor's bytes."""
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def contents(folder: Path, without: tuple[str, ...] = ("vocabsurgeon.json",)) -> dict[str, bytes]:
    """Every file's bytes, by its name; but those of `without`."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {name: path.read_bytes() for path in files if (name := path.relative_to(folder).as_posix()) not in without}


def reloaded(folder: Path, base: bool = False) -> Any:
    """The model as transformers loads it, in eval mode; fails where a key is missing or left over."""
    auto = transformers.AutoModel if base else transformers.AutoModelForCausalLM
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model.eval()


def shares(model: Any) -> bool:
    """Whether input embedding and LM head are one storage."""
    head = model.get_output_embeddings().weight
    return bool(head.data_ptr() == model.get_input_embeddings().weight.data_ptr())


def logits_of(model: Any, rows: int = VOCAB) -> np.ndarray[Any, Any]:
    """Logits over the first `rows` ids of one fixed prompt of old ids, `[1, 12, rows]`."""
    with torch.no_grad():
        found: np.ndarray[Any, Any] = (
            model(torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 31, 8, 9]])).logits.float().numpy()
        )
    return found[..., :rows]


def leftovers(out: Path) -> list[str]:
    """What lies where OUT would: OUT itself, and staged or replaced siblings."""
    return sorted(path.name for path in out.parent.iterdir() if path.name.removeprefix(".").startswith(out.name))


def report_of(folder: Path) -> Mapping[str, Any]:
    """The record that a command left in `folder`."""
    document: Mapping[str, Any] = json.loads((folder / "vocabsurgeon.json").read_text())
    return document
