"""Tiny checkpoints in torch's own format: made from safetensors ones, in the zip format or the one before torch 1.6."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

SINGLE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
State = Mapping[str, torch.Tensor]


def as_pickled(folder: Path, *, old: bool = False, shards: int = 1, alias: bool = True) -> Path:
    """Turn the single safetensors file of `folder` into `pytorch_model.bin`, or into shards with an index.

    With `alias` a tied Llama holds its table under both names over one storage, as `state_dict()` gives it.
    """
    file = folder / "model.safetensors"
    tensors: dict[str, Any] = load_file(file)
    file.unlink()
    if alias and "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    keys = sorted(tensors)
    if shards == 1:
        save({key: tensors[key] for key in keys}, folder / SINGLE, old=old)
        return folder
    weight_map = {}
    for number in range(shards):
        name = f"pytorch_model-{number + 1:05}-of-{shards:05}.bin"
        part = {key: tensors[key] for key in keys[number::shards]}
        save(part, folder / name, old=old)
        weight_map |= dict.fromkeys(part, name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2))
    return folder


def save(value: object, path: Path, *, old: bool = False) -> Path:
    """`torch.save` in either format."""
    torch.save(value, path, _use_new_zipfile_serialization=not old)
    return path


def loaded(path: Path) -> dict[str, torch.Tensor]:
    """The state dict as torch's own `weights_only` loader reads it."""
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True)
    return state
