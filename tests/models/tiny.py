"""One table of tiny random models, a row a family, and the tokenizer that goes with them. Built here, never downloaded.

Every parameter is random (biases and norms too): a fault that zeros or ones would hide shows in the logits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VOCAB = 64
"""Rows of the vocabulary tables unless `vocab_size` is given."""

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_GQA = _COMMON | {"num_key_value_heads": 1, "head_dim": 8}
_GEMMA2 = _GQA | {"num_hidden_layers": 3, "sliding_window": 6, "query_pre_attn_scalar": 8}
_SLIDING3 = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}

_FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", _COMMON),
    "mistral": ("MistralConfig", "MistralForCausalLM", _GQA | {"sliding_window": 6}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", _COMMON | {"num_key_value_heads": 1}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", _GQA),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", _GQA),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", _GEMMA2 | _SLIDING3),
    "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM", _GEMMA2 | _SLIDING3),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", _COMMON | {"n_embd": 16, "n_inner": 32, "n_layer": 2, "n_head": 2}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", _COMMON),
    "opt": ("OPTConfig", "OPTForCausalLM", _COMMON | {"ffn_dim": 32, "word_embed_proj_dim": 16}),
    "phi": ("PhiConfig", "PhiForCausalLM", _COMMON),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", _COMMON | {"original_max_position_embeddings": 128}),
    "bloom": ("BloomConfig", "BloomForCausalLM", _COMMON | {"n_layer": 2, "n_head": 2}),
    "falcon": ("FalconConfig", "FalconForCausalLM", _COMMON | {"new_decoder_architecture": False}),
}
_RENAMED = {"gpt2": ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
"""Generic names that the family's config holds under its own names alone."""


def model(family: str, tied: bool = True, seed: int = 0, **config: Any) -> PreTrainedModel:
    """A random float32 model of `family` in eval mode; `config` overrides its row. Same arguments, same bits."""
    import torch
    import transformers

    config_class, model_class, row = _FAMILIES[family]
    kept = {key: value for key, value in row.items() if key not in _RENAMED.get(family, ())}
    settings = getattr(transformers, config_class)(**(kept | {"tie_word_embeddings": tied} | config))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        built: PreTrainedModel = getattr(transformers, model_class)(settings).eval()
        with torch.no_grad():
            for parameter in built.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.15)
    return built


TINY: dict[str, Callable[..., PreTrainedModel]] = {family: partial(model, family) for family in _FAMILIES}
"""Family → builder of its tiny model; takes what `model` takes."""


def build(family: str, folder: Path, tied: bool = True, dtype: str = "float32", **config: Any) -> Path:
    """Save the tiny model of `family` (random weights in `dtype`) with a word tokenizer into `folder`, and return it.

    The tokenizer has an id for every row. A single safetensors file unless `max_shard_size` is given.
    """
    import torch

    sharding = {key: config.pop(key) for key in ("max_shard_size",) if key in config}
    built = model(family, tied, **config).to(getattr(torch, dtype))
    built.save_pretrained(folder, **sharding)
    write_tokenizer(folder, built.config.get_text_config().vocab_size)
    return folder


def write_tokenizer(folder: Path, entries: int) -> None:
    """Write `wordlevel_tokenizer(entries)` as tokenizer.json and a tokenizer_config.json beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer.json").write_text(json.dumps(wordlevel_tokenizer(entries), indent=2, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))


def wordlevel_tokenizer(entries: int) -> dict[str, Any]:
    """`TOK(n)` of CASES.md as a tokenizer.json document: `<unk>` is id 0, then the words `w1`, … `w<entries - 1>`."""
    vocab = {"<unk>": 0} | {f"w{i}": i for i in range(1, entries)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    }
