"""Tiny multimodal models whose vocabulary lies in a nested text config. Built here, never downloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.models.tiny import VOCAB, write_tokenizer

_TEXT: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_VISION: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}


def _llava(tied: bool) -> Any:
    import transformers

    text = {**_TEXT, "model_type": "llama", "tie_word_embeddings": tied}
    vision = {**_VISION, "model_type": "clip_vision_model", "projection_dim": 16}
    config = transformers.LlavaConfig(
        text_config=text, vision_config=vision, image_token_index=63, tie_word_embeddings=tied
    )
    return transformers.LlavaForConditionalGeneration(config)


def _qwen2_vl(tied: bool) -> Any:
    import transformers

    text = {**_TEXT, "rope_parameters": _ROPE, "tie_word_embeddings": tied}
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 2, "mlp_ratio": 2, "patch_size": 4}
    special = {"image_token_id": 60, "video_token_id": 61, "vision_start_token_id": 62, "vision_end_token_id": 63}
    config = transformers.Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied, **special)
    return transformers.Qwen2VLForConditionalGeneration(config)


def _gemma3(tied: bool) -> Any:
    import transformers

    text = {**_TEXT, "head_dim": 8, "sliding_window": 8, "tie_word_embeddings": tied}
    special = {"image_token_index": 61, "boi_token_index": 62, "eoi_token_index": 63}
    config = transformers.Gemma3Config(
        text_config=text, vision_config=_VISION, mm_tokens_per_image=4, tie_word_embeddings=tied, **special
    )
    return transformers.Gemma3ForConditionalGeneration(config)


NESTED: dict[str, Callable[[bool], Any]] = {"llava": _llava, "qwen2_vl": _qwen2_vl, "gemma3": _gemma3}
"""Family → builder of its tiny model, tied or untied."""


def build_nested(family: str, folder: Path, tied: bool = True) -> Path:
    """Save the tiny model of `family` (random float32 weights, the same each time) with a word tokenizer."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = NESTED[family](tied)
        with torch.no_grad():
            for parameter in built.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.15)
    built.save_pretrained(folder)
    write_tokenizer(folder, VOCAB)
    return folder
