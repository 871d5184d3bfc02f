"""What the generator covers and what some types need to be built at all. Data only."""

from __future__ import annotations

from typing import Any

AUTO_CLASSES = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
"""Mappings of transformers' auto classes, the most telling class of a type first."""

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_OVER_T5 = {"text_config": {"model_type": "t5"}, "use_decoder_only_language_model": False}
_COMPASS = {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}}

COMPOSED = ("encoder-decoder", "rag", "speech-encoder-decoder", "vision-encoder-decoder", "vision-text-dual-encoder")
"""Types that wrap two models of any type: their names are the inner models', so no row can hold for all."""

VARIANTS = {
    "blip-2+t5": "Blip2ForConditionalGeneration",
    "instructblip+t5": "InstructBlipForConditionalGeneration",
    "instructblipvideo+t5": "InstructBlipVideoForConditionalGeneration",
}
"""Type + type of the text model inside → class, where released models hold another text model than the default one."""

FLAG_SPELLINGS = ("tie_embedding", "tie_embeddings", "tie_weights", "tie_lm_head", "share_input_output_embeddings")
"""Other names under which a config.json may state the tie flag; asked of every config class."""

RECIPES: dict[str, dict[str, Any]] = {
    "blip-2+t5": _OVER_T5,
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "cohere_compass": {"text_config": {"model_type": "cohere_compass_text"} | _COMPASS},
    "cohere_compass_text": _COMPASS,
    "dbrx": {"attn_config": {"rope_theta": 10000.0}},
    "deepseek_ocr2": {
        "text_config": {
            "model_type": "deepseek_ocr2_text",
            "num_hidden_layers": 2,
            "mlp_layer_types": ["dense", "sparse"],
        }
    },
    "diffusion_gemma": {
        "text_config": {
            "model_type": "diffusion_gemma_text",
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 64,
        }
    },
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "emu3": {"vocabulary_map": {"<image>": 151851, "<|extra_200|>": 151846}},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "num_hidden_layers": 2,
            "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
        }
    },
    "granite4_vision": {"deepstack_layer_map": [], "spatial_layer_map": [], "downsample_rate": "4/8"},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config": {"model_type": "hunyuan_vl_text", "head_dim": 128}},
    "hunyuan_vl_text": {"head_dim": 128},
    "instructblip+t5": _OVER_T5,
    "instructblipvideo+t5": _OVER_T5,
    "lfm2_moe": {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "ministral": {"head_dim": 128},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "nemotron": {"num_key_value_heads": 8},
    "perception_lm": {"vision_config": {"model_type": "timm_wrapper", "model_args": {"embed_dim": 64}}},
    "qwen3_omni_moe": {
        "talker_config": {"spatial_merge_size": 2, "text_config": {"shared_expert_intermediate_size": 64}}
    },
    "reformer": {"is_decoder": True},
    "ReformerForMaskedLM": {"is_decoder": False},
}
"""Model type (or class) → what its config.json must state for the class to be built: some defaults are incomplete or
contradict each other."""
