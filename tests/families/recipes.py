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
    "mllama_text_model": "MllamaForCausalLM",
}
"""Type + type of the text model inside → class, where released models hold another text model than the default one;
and types that no auto class names."""

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

NO_TOKENS = {"dia": "its tables hold audio codes, a vocabulary for each channel, not tokens"}
"""Model type → why its tables are no vocabulary of tokens. Read from modeling_*.py."""

TIED_ALONG = {
    "diffusion_gemma": "the weights of encoder and decoder",
    "zamba": "the weights of the transformer block that its layers share",
}
"""Model type → what else the tie flag shares, beside the tables and far from them."""

IN_PARTS = {"molmo2": ("model.transformer.wte.embedding", "model.transformer.wte.new_embedding")}
"""Model type → the stored tensors that are joined to one input embedding at load (conversion_mapping.py)."""

TAILS = {"idefics": ("model.embed_tokens.additional_embedding.weight", "lm_head.additional_fc.weight")}
"""Model type → tensors that hold the rows of ids from the size on (IdeficsDecoupledEmbedding)."""

TABLE_IS_HEAD_IF_FALSE = {"deberta": "legacy", "deberta-v2": "legacy"}
"""Model type → the config value that, where false, has the class multiply by the input embedding itself."""

MORE_BIASES = {"deberta": {"lm_predictions.lm_head.bias": 0}, "deberta-v2": {"lm_predictions.lm_head.bias": 0}}
"""Model type → output biases that only another config value brings about."""

ADAPTIVE_IF = {"flaubert": "asm", "xlm": "asm"}
"""Model type → the config value that makes the LM head an adaptive softmax: clusters instead of a table."""

TIED_BESIDE = {"neomme": [["model.embed_tokens.embedding_projection.weight", "unembedding_projection.weight"]]}
"""Model type → further groups of one parameter where the tables are tied, which are no tables."""

APART_IF_FALSE = {"marian": "share_encoder_decoder_embeddings"}
"""Model type → the config value that gives encoder and decoder vocabularies of their own."""

SCALED_IF_TIED = ("switch_transformers",)
"""Model types that multiply what goes into the head by d_model ** -0.5 exactly where the flag says tied."""

BEYOND_MOVES = {
    "cpmant": True,  # prompt vectors, looked up at vocab_size + …
    "dia": True,
    "kyutai_speech_to_text": True,  # audio codes, offset by vocab_size
    "mllama": False,  # image tokens, whose ids the config and the tokenizer state
    "mllama_text_model": False,
    "molmo2": False,  # tokens with ids of their own
    "molmo2_text": False,
    "moshi": True,  # padding_idx is vocab_size
    "parakeet_tdt": True,  # durations, read behind the tokens' logits
}
"""Model type with rows beyond the size → whether the model counts them from the size on. A shape cannot tell, so every
such type must be entered here; read from modeling_*.py."""

MORE_SIZES = {"marian": ("vocab_size", "decoder_vocab_size")}
"""Sizes that are stated beside the observed one and must agree with it."""

BY_HAND: list[dict[str, Any]] = [
    {
        "type": "canary",
        "classes": ["CanaryForConditionalGeneration"],
        "input": "model.decoder.embed_tokens.weight",
        "output": "proj_out.weight",
        "biases": {"proj_out.bias": 0},
        "tie": "root",
        "root_default": True,
        "prefix": "model",
    },
    {
        "type": "t5gemma2",
        "classes": ["T5Gemma2ForConditionalGeneration"],
        "input": "model.encoder.embed_tokens.weight",
        "output": "lm_head.out_proj.weight",
        "others": {"model.decoder.embed_tokens.weight": 0},
        "tie": "root",
        "root_default": True,
        "shared_if_tied": [
            ["lm_head.out_proj.weight", "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight"],
            ["model.decoder.embed_tokens.eoi_embedding", "model.encoder.embed_tokens.eoi_embedding"],
        ],
        "prefix": "model",
    },
]
"""Rows of types whose sizes cannot be changed one at a time, so that observing fails; the sweep holds them true."""
