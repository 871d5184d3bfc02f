"""Checkpoints of any size with Llama's names and shapes and random bf16 weights, written in blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from tests.models.tiny import write_tokenizer

INPUT, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Shape:
    """A Llama: `rows` of vocabulary, `width`, `layers`, and the size at which a new shard begins."""

    rows: int
    width: int
    layers: int
    shard_bytes: int


TINY = Shape(rows=64, width=16, layers=2, shard_bytes=8_000)
MIDDLE = Shape(rows=64, width=1024, layers=4, shard_bytes=50_000_000)
"""0.12 GB: beyond what a process of ours holds by itself."""
SMALL = Shape(rows=32_000, width=2048, layers=1, shard_bytes=500_000_000)
"""0.25 GB tied."""
LARGE = Shape(rows=32_000, width=2048, layers=19, shard_bytes=500_000_000)
"""2.44 GB tied, 2.57 GB with a head; a table is 131 MB."""


def write_checkpoint(folder: Path, shape: Shape, *, head: bool) -> Path:
    """Write a checkpoint that is `tied`, or with `head` `untied-equal`, and return `folder`."""
    folder.mkdir(parents=True)
    shards = list(_shards(shape, head))
    names = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    for name, tensors in zip(names, shards, strict=True):
        _write_shard(folder / name, tensors)
    weight_map = {key: name for name, tensors in zip(names, shards, strict=True) for key in tensors}
    total = sum(2 * prod(dims) for tensors in shards for dims in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    (folder / "config.json").write_text(json.dumps(_config(shape, tied=not head), indent=2) + "\n")
    write_tokenizer(folder, shape.rows)
    return folder


def write_headers_only(folder: Path, shards: int, tensors_each: int) -> Path:
    """A tied checkpoint of many shards whose data are holes in the files: every header is real, no byte is stored."""
    folder.mkdir(parents=True)
    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    keys = {name: [f"model.layers.{i}.block.{j}.weight" for j in range(tensors_each)] for i, name in enumerate(names)}
    keys[names[0]].insert(0, INPUT)
    for name in names:
        header, size = _header({key: (32_000, 2048) if key == INPUT else (2048, 2048) for key in keys[name]})
        with open(folder / name, "wb") as file:
            file.write(header)
            file.truncate(len(header) + size)
    index = {"metadata": {}, "weight_map": {key: name for name in names for key in keys[name]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (folder / "config.json").write_text(json.dumps(_config(LARGE, tied=True)))
    write_tokenizer(folder, 32_000)
    return folder


def _shards(shape: Shape, head: bool) -> Iterator[dict[str, tuple[int, ...]]]:
    shard: dict[str, tuple[int, ...]] = {}
    for key, dims in _tensors(shape, head):
        if shard and 2 * sum(prod(held) for held in (*shard.values(), dims)) > shape.shard_bytes:
            yield shard
            shard = {}
        shard[key] = dims
    yield shard


def _tensors(shape: Shape, head: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, wide, narrow = shape.width, 4 * shape.width, shape.width // 4
    yield INPUT, (shape.rows, width)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", (width,)
        yield f"{prefix}.mlp.down_proj.weight", (width, wide)
        yield f"{prefix}.mlp.gate_proj.weight", (wide, width)
        yield f"{prefix}.mlp.up_proj.weight", (wide, width)
        yield f"{prefix}.post_attention_layernorm.weight", (width,)
        yield f"{prefix}.self_attn.k_proj.weight", (narrow, width)
        yield f"{prefix}.self_attn.o_proj.weight", (width, width)
        yield f"{prefix}.self_attn.q_proj.weight", (width, width)
        yield f"{prefix}.self_attn.v_proj.weight", (narrow, width)
    yield "model.norm.weight", (width,)
    if head:
        yield HEAD, (shape.rows, width)


def _header(tensors: dict[str, tuple[int, ...]]) -> tuple[bytes, int]:
    entries, position = {}, 0
    for key, dims in tensors.items():
        end = position + 2 * prod(dims)
        entries[key] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [position, end]}
        position = end
    text = json.dumps({"__metadata__": {"format": "pt"}, **entries}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, position


def _write_shard(path: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    with open(path, "wb") as file:
        file.write(_header(tensors)[0])
        for key, dims in tensors.items():
            generator = np.random.Generator(np.random.SFC64([_seed(key), prod(dims)]))
            left = prod(dims)
            while left:
                count = min(left, 1 << 22)
                # The upper half of the bits of small float32 numbers are bfloat16 numbers.
                numbers = generator.standard_normal(count, np.float32) * np.float32(0.02)
                file.write((numbers.view(np.uint32) >> 16).astype("<u2").data)
                left -= count


def _seed(key: str) -> int:
    """A head gets the numbers of the input embedding."""
    return int.from_bytes((INPUT if key == HEAD else key).encode(), "little")


def _config(shape: Shape, *, tied: bool) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.rows,
        "hidden_size": shape.width,
        "intermediate_size": 4 * shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "bfloat16",
        "tie_word_embeddings": tied,
    }
