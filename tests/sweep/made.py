"""What the shrinking rules cannot know: values of a model type, and its inputs beside the prompt. Data only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.families.recipes import RECIPES

_ROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0}


def _mrope(*sections: int) -> dict[str, Any]:
    return {"text_config": {"rope_parameters": {**_ROPE, "mrope_section": list(sections)}}}


_GEMMA3N: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_kv_shared_layers": 0,
    "layer_types": ["sliding_attention", "full_attention"],
    "intermediate_size": [64, 64],
    "activation_sparsity_pattern": [0.0, 0.0],
}

_LINEAR: dict[str, Any] = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
_CONVOLVED: dict[str, Any] = {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]}

_INDEXED: dict[str, Any] = {"index_topk": 8, "index_n_heads": 32}  # a score of 0 would tie with others
_DECODING = (
    "BertGenerationDecoder",
    "BertLMHeadModel",
    "BigBirdForCausalLM",
    "CamembertForCausalLM",
    "Data2VecTextForCausalLM",
    "ElectraForCausalLM",
    "ErnieForCausalLM",
    "MegatronBertForCausalLM",
    "RemBertForCausalLM",
    "RoCBertForCausalLM",
    "RoFormerForCausalLM",
    "RobertaForCausalLM",
    "RobertaPreLayerNormForCausalLM",
    "XLMRobertaForCausalLM",
    "XLMRobertaXLForCausalLM",
    "XmodForCausalLM",
)
"""Classes of encoders' types, which decode where the config says so."""

OWN: dict[str, dict[str, Any]] = {
    **RECIPES,
    "axk2": _INDEXED,
    "bailing_hybrid": _LINEAR,
    "bamba": {"attn_layer_indices": [1]},
    "blt": {
        "encoder_hash_byte_group_vocab": 64,
        "patcher_config": {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4},
    },
    "chameleon": {"vocabulary_map": {"<image>": 150}},
    "codegen": {"rotary_dim": 4},
    "dbrx": {
        "d_model": 32,
        "n_heads": 4,
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32},
    },
    "deepseek_ocr2": {
        "text_config": {
            "model_type": "deepseek_ocr2_text",
            "num_hidden_layers": 2,
            "num_experts_per_tok": 2,
            "mlp_layer_types": ["dense", "sparse"],
        }
    },
    "deepseek_v2": {"num_experts_per_tok": 2, "n_routed_experts": 4, "topk_method": "greedy"},
    "deepseek_v32": _INDEXED,
    "deepseek_v4": {
        "num_hidden_layers": 2,
        "layer_types": ["compressed_sparse_attention", "heavily_compressed_attention"],
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16},
        "index_topk": 3,
        "index_n_heads": 32,
    },
    "dots3_note": {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "text_config": {"num_key_value_heads": 4, **_INDEXED},
    },
    "dots3_note_text": _INDEXED,
    "emu3": {"vocabulary_map": {"<image>": 150, "<|extra_200|>": 151}},
    "encoder-decoder": {"decoder": {"is_decoder": True, "add_cross_attention": True}},
    "esm": {"vocab_size": 160, "pad_token_id": 1, "mask_token_id": 32},
    "gemma3n": {"text_config": _GEMMA3N},
    "gemma3n_text": _GEMMA3N,
    "glm46v": _mrope(1, 1, 2),
    "glm4v": _mrope(1, 1, 2),
    "glm4v_moe": _mrope(0, 1, 1),
    "glm_moe_dsa": _INDEXED,
    "glm_ocr": _mrope(1, 1, 2),
    "glmga": _mrope(1, 1, 2),
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"]},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "hunyuan_vl": {"text_config": {"model_type": "hunyuan_vl_text", "head_dim": 8}},
    "hunyuan_vl_text": {"head_dim": 8},
    "hy_v4": _INDEXED,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": _LINEAR,
    "lfm2": _CONVOLVED,
    "lfm3": _CONVOLVED,
    "mamba2": {"hidden_size": 32, "expand": 2, "num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 16},
    "minimax_m3_vl_text": {
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", "minimax_m3_sparse"],
        "index_block_size": 6,
        "index_topk_blocks": 2,
    },
    "ministral": {"head_dim": 8},
    "molmo2": {"adapter_config": {"vision_feature_layer": [0, 1]}, "vit_config": {"num_hidden_layers": 2}},
    "nemotron": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    "perceiver": {"num_latents": 8, "d_latents": 32, "num_self_attends_per_block": 2, "num_cross_attention_heads": 4},
    "qwen2_5_omni_thinker": _mrope(1, 1, 2),
    "qwen2_5_vl": _mrope(1, 1, 2),
    "qwen2_vl": _mrope(1, 1, 2),
    "qwen3_5": {"text_config": _LINEAR},
    "qwen3_5_moe": {"text_config": _LINEAR},
    "qwen3_5_text": _LINEAR,
    "qwen3_5_moe_text": _LINEAR,
    "qwen3_next": _LINEAR,
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "reformer": {
        "is_decoder": True,
        "hidden_size": 32,
        "attention_head_size": 8,
        "axial_pos_shape": [16, 16],
        "axial_pos_embds_dim": [8, 24],
        "attn_layers": ["local", "lsh"],
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "num_hashes": 1,
        "num_buckets": 2,
        "hash_seed": 0,
    },
    "ReformerForMaskedLM": {"is_decoder": False},
    **{name: {"is_decoder": True} for name in _DECODING},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 3, "layers_block_type": ["mamba", "hybrid", "hybrid"], "n_mamba_heads": 2},
    "zamba2": {
        "num_hidden_layers": 2,
        "layers_block_type": ["mamba", "hybrid"],
        "mamba_ngroups": 1,
        "n_mamba_heads": 8,
        "mamba_headdim": 8,
        "mamba_d_state": 8,
    },
}
"""Model type (or class) → what its tiny config.json states beside what the rules give."""


def _random(*shape: int) -> Any:
    import torch

    return torch.rand(*shape, generator=torch.Generator().manual_seed(7))


def _images(model: Any, prompt: Any) -> dict[str, Any]:
    vision = model.config.vision_config
    return {"pixel_values": _random(len(prompt), 3, vision.image_size, vision.image_size)}


def _spectrogram(model: Any, prompt: Any) -> dict[str, Any]:
    config = model.config
    return {"input_features": _random(len(prompt), config.num_mel_bins, 2 * config.max_source_positions)}


def _boxes(model: Any, prompt: Any) -> dict[str, Any]:
    return {"bbox": _random(*prompt.shape, 4)}


INPUTS: Mapping[str, Callable[[Any, Any], dict[str, Any]]] = {
    "blip": _images,
    "moonshine": lambda model, prompt: {"input_values": _random(len(prompt), 4000)},
    "speech_to_text": lambda model, prompt: {
        "input_features": _random(len(prompt), 40, model.config.input_feat_per_channel)
    },
    "speecht5": lambda model, prompt: {"input_values": _random(len(prompt), 4000)},
    "udop": _boxes,
    "vision-encoder-decoder": lambda model, prompt: {
        "pixel_values": _random(len(prompt), 3, model.config.encoder.image_size, model.config.encoder.image_size)
    },
    "whisper": _spectrogram,
    "WhisperForCausalLM": lambda model, prompt: {},
}
"""Model type (or class) → inputs of the forward pass beside the prompt, by the model and the prompt."""
