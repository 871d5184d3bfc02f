"""Checkpoint folders made byte by byte, right or wrong on purpose, and read back by the safetensors library alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import deserialize

from vocabsurgeon.checkpoint.dtypes import by_name

CONFIG: dict[str, Any] = {"model_type": "llama", "vocab_size": 8}


@dataclass(frozen=True)
class Stored:
    """A tensor as names, numbers and bytes: what two files are compared by."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def array(self) -> np.ndarray[Any, Any]:
        """The values, in the stored dtype."""
        return np.frombuffer(self.data, by_name()[self.dtype].numpy).reshape(self.shape)


def random_tensor(dtype: str, shape: Sequence[int], seed: int = 0) -> Stored:
    """Random bits (NaN, infinities and subnormal numbers among them) of a shape."""
    count = by_name()[dtype].size_of(int(np.prod(shape, dtype=object)))
    data = np.random.default_rng(seed).integers(0, 2 if dtype == "BOOL" else 256, count, np.uint8)
    return Stored(dtype, tuple(shape), data.tobytes())


def tensor_of(values: Any, dtype: str = "F32") -> Stored:
    """Values given as numbers."""
    array = np.asarray(values).astype(by_name()[dtype].numpy)
    return Stored(dtype, array.shape, array.tobytes())


def raw_file(header: object, data: bytes = b"") -> bytes:
    """A safetensors file with whatever header; `header` is JSON text as bytes, or anything to be written as JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header, ensure_ascii=False).encode()
    return struct.pack("<Q", len(text)) + text + data


def weights_file(
    tensors: Mapping[str, Stored], metadata: Mapping[str, str] | None = None, data_order: Sequence[str] | None = None
) -> bytes:
    """A valid file: header keys in the mapping's order, data in `data_order`."""
    entries, data = {}, b""
    for key in data_order or list(tensors):
        stored = tensors[key]
        entries[key] = {
            "dtype": stored.dtype,
            "shape": stored.shape,
            "data_offsets": [len(data), len(data) + len(stored.data)],
        }
        data += stored.data
    header = ({} if metadata is None else {"__metadata__": metadata}) | {key: entries[key] for key in tensors}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return raw_file(text + b" " * (-len(text) % 8), data)


def checkpoint(folder: Path, *shards: Mapping[str, Stored], parameters: bool = False, **files: bytes) -> Path:
    """A folder with config.json and one weight file, or shards and an index (with total_parameters if asked).

    `files` are further files by name, with `__` for a dot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    if len(shards) == 1:
        (folder / "model.safetensors").write_bytes(weights_file(shards[0], {"format": "pt"}))
        return folder
    weight_map: dict[str, str] = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        (folder / name).write_bytes(weights_file(tensors, {"format": "pt"}))
        weight_map |= dict.fromkeys(tensors, name)
    everything = [stored for tensors in shards for stored in tensors.values()]
    metadata = {"total_size": sum(len(stored.data) for stored in everything)}
    if parameters:
        metadata["total_parameters"] = sum(int(np.prod(stored.shape)) for stored in everything)
    index = {"metadata": metadata, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return folder


def stored_in(file: Path) -> dict[str, Stored]:
    """The tensors of one file as the safetensors library reads them."""
    return {
        key: Stored(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for key, entry in deserialize(file.read_bytes())
    }


def stored(folder: Path) -> dict[str, Stored]:
    """The tensors of all weight files of a folder."""
    files = sorted(folder.glob("*.safetensors"))
    return {key: tensor for file in files for key, tensor in stored_in(file).items()}


def header_of(file: Path) -> dict[str, Any]:
    """The header as JSON, keys in the file's order."""
    raw = file.read_bytes()
    header: dict[str, Any] = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    return header
