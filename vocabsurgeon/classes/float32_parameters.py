"""Which parameters transformers' classes keep in float32 where half precision is asked for: data and its reader."""

from __future__ import annotations

import re

from vocabsurgeon.checkpoint.config import Config

_HALF = ("FLOAT16",)
_BOTH = ("FLOAT16", "BFLOAT16")

_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "axk1",
            "deepseek_v3",
            "dots1",
            "dots3_note",
            "dots3_note_text",
            "dots3_note_vision_encoder",
            "ernie4_5_moe",
            "ernie4_5_vl_moe",
            "ernie4_5_vl_moe_text",
            "ernie4_5_vl_moe_vision",
            "exaone_moe",
            "glm4_moe",
            "glm4_moe_lite",
            "glm4v_moe",
            "glm4v_moe_text",
            "glm4v_moe_vision",
            "hy_v3",
            "nemotron_h",
            "solar_open",
        ),
        (),
        ("e_score_correction_bias", "gate.weight"),
    ),
    (("mt5", "pop2piano", "t5", "udop", "umt5"), ("wo",), ()),
    (
        ("inkling_audio", "inkling_mm_model", "inkling_text", "inkling_vision"),
        (),
        ("attn_sconv", "e_score_correction_bias", "gate.global_scale", "k_sconv", "mlp_sconv", "v_sconv"),
    ),
    (
        ("muse_spark", "muse_spark_audio", "muse_spark_text", "muse_spark_vision"),
        (),
        (
            "e_score_correction_bias",
            "mlp.gate.weight",
            "post_attention_residual_gate",
            "post_feedforward_residual_gate",
        ),
    ),
    (("axk2", "deepseek_v32", "glm_moe_dsa"), ("indexer.weights_proj",), ("e_score_correction_bias", "gate.weight")),
    (("deepseek_ocr2_text", "deepseek_v2", "unlimited_ocr_text"), (), ("gate.weight",)),
    (
        ("glm5_next", "glm5_next_text", "glm5_next_vision"),
        (),
        (
            "A_log",
            "attn_hc.base",
            "attn_hc.scale",
            "conv1d",
            "dt_bias",
            "e_score_correction_bias",
            "ffn_hc.base",
            "ffn_hc.scale",
            "gate.weight",
        ),
    ),
    (
        ("inkling2", "inkling2_text", "inkling2_vision"),
        (),
        (
            "attention_input",
            "e_score_correction_bias",
            "final_input",
            "mlp.gate.weight",
            "mlp_input",
            "post_attention_convolution",
            "post_mlp_convolution",
            "sconv.conv1d",
        ),
    ),
    (("beam", "mimo_v2_flash"), (), ("e_score_correction_bias", "mlp.gate.weight")),
    (("gradium_phonon_tts", "pocket_tts"), (), ("freqs", "latent_mean", "latent_std")),
    (("granite_speech5_ctc", "granite_speech5_encoder"), (), ("conv.norm",)),
    (
        ("hy_v4", "hy_v4_vl"),
        (),
        (
            "base",
            "e_score_correction_bias",
            "fn",
            "gate.weight",
            "hc_base",
            "hc_fn",
            "hc_scale",
            "k_norm",
            "lm_head",
            "scale",
            "sinks",
            "weights_proj",
        ),
    ),
    (
        ("hy_v4_vl_text", "hy_v4_vl_vision"),
        (),
        (
            "base",
            "e_score_correction_bias",
            "fn",
            "gate.weight",
            "hc_base",
            "hc_fn",
            "hc_scale",
            "k_norm",
            "scale",
            "sinks",
            "weights_proj",
        ),
    ),
    (
        ("inkling2_loop", "inkling2_loop_text"),
        (),
        (
            "attention_input",
            "e_score_correction_bias",
            "final_input",
            "forget_gate_proj",
            "message_gate_proj",
            "message_input",
            "mlp.gate.weight",
            "mlp_input",
            "post_attention_convolution",
            "post_mlp_convolution",
            "sconv.conv1d",
        ),
    ),
    (("instructblip", "instructblipvideo"), ("query_tokens",), ()),
    (("mistral_large4", "mistral_large4_text"), ("indexer.weights_proj",), ("mlp.gate.weight", "rotary_emb")),
    (("slanext", "slanext_vision"), (), ("structure_attention_cell", "structure_generator")),
    (
        ("afmoe",),
        (
            "input_layernorm",
            "k_norm",
            "norm",
            "post_attention_layernorm",
            "post_mlp_layernorm",
            "pre_mlp_layernorm",
            "q_norm",
        ),
        ("expert_bias",),
    ),
    (("apertus1p5",), (), ("audio_tokenizer", "vision_tokenizer")),
    (("bailing_hybrid",), (), ("A_log", "conv1d", "dt_bias", "e_score_correction_bias", "gate.weight")),
    (("blip-2",), ("qformer", "query_tokens"), ()),
    (
        ("deepseek_v4",),
        (
            "self_attn.compressor.gate_proj",
            "self_attn.compressor.indexer.gate_proj",
            "self_attn.compressor.indexer.kv_proj",
            "self_attn.compressor.indexer.scorer.weights_proj",
            "self_attn.compressor.kv_proj",
        ),
        (
            "attn_hc",
            "e_score_correction_bias",
            "ffn_hc",
            "hc_head",
            "input_layernorm",
            "kv_norm",
            "norm",
            "position_bias",
            "post_attention_layernorm",
            "q_a_norm",
            "sinks",
        ),
    ),
    (
        ("esmfold2",),
        (),
        (
            "boundaries",
            "distogram_head",
            "fourier",
            "norm.bias",
            "norm.weight",
            "norm_mix",
            "norm_single",
            "norm_start",
        ),
    ),
    (("flint",), (), ("gate.weight", "sinks")),
    (("gpt_oss",), ("input_layernorm", "norm", "post_attention_layernorm"), ()),
    (("kimi_linear",), (), ("dt_bias", "e_score_correction_bias", "gate.weight")),
    (("kolibri1",), (), ("e_score_correction_bias",)),
    (("kyutai_speech_to_text",), (), ("codec_model",)),
    (("longcat_flash",), ("classifier.weight",), ()),
    (("nemo_speechlm",), (), ("audio_tower", "multi_modal_projector")),
    (("openai_privacy_filter",), (), ("sinks",)),
    (("rwkv",), ("time_decay", "time_first"), ()),
    (("voxtral",), (), ("embed_positions",)),
)
"""Model types, what their classes keep in float32 when float16 is asked for, and what they keep with bfloat16 too: the
`_keep_in_fp32_modules` and `_keep_in_fp32_modules_strict` of transformers 5.24, regular expressions that are searched
in a parameter's name. A test reads the classes again."""

KEPT = {model_type: (half, both) for types, half, both in _ROWS for model_type in types}


def kept_in_float32(config: Config, element: str) -> re.Pattern[str] | None:
    """What is found in the names of the parameters that stay in float32 in a model of `element`, an ONNX name.

    None where none does. A model keeps what its sub-models keep, so the model types of all config levels count.
    """
    types = {str(level.get("model_type")) for level in config.levels.values()}
    found: set[str] = set()
    for half, both in (KEPT[model_type] for model_type in types if model_type in KEPT):
        found.update(half if element in _HALF else (), both if element in _BOTH else ())
    return re.compile("|".join(sorted(found))) if found else None
