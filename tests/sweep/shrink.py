"""A config.json of tiny widths for any model type: rules by the name of a config value, and what they cannot know.

Data first. A rule sees names only, so that a new model type needs no new code; where the rules fail, `tests.sweep.made`
holds the type's own values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tests.families.builds import Json, config_of
from vocabsurgeon.checkpoint.config import Path
from vocabsurgeon.vocabulary.model_class import levels, merged, stated

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

VOCAB = 160
"""Rows of the shrunken vocabularies."""
WIDTH = 32

RULES: tuple[tuple[str, int], ...] = (
    (
        r"(^|_)vocab_size(_|$)|^(src|tgt)_vocab_size$|^n_words$|^n_token$|vocab_size_per_layer_input|unpadded_vocab_size",
        VOCAB,
    ),
    (r"^num_.*codebook.*|codebook_size|^num_codebooks$|^num_quantizers$", 4),
    (
        r"^(num_)?(hidden_|encoder_|decoder_|text_|conv_)?layers$|^n_layers?$|^num_(encoder|decoder|hidden)_layers$|^depth$|_num_hidden_layers$|^num_blocks$",
        2,
    ),
    (r"(kv_heads|key_value_heads|num_kv_heads|n_head_kv|multi_query_group_num|num_query_groups)$", 2),
    (r"(attention_heads|num_heads|n_heads?|num_attn_heads)$", 4),
    (
        r"^(head_dim|d_kv|d_head|kv_channels|head_size|attention_head_size|.*_head_dim|global_head_dim|attention_head_dim)$",
        8,
    ),
    (r"(n_routed_experts|num_(local_|routed_)?experts|n_experts|moe_num_experts|num_experts)$", 4),
    (r"(num_experts_per_tok|top_k_experts|moe_top_k|num_selected_experts|moe_topk|experts_per_token|moe_k)$", 2),
    (r"^(n_group|topk_group|num_groups|n_groups|mamba_n_groups)$", 1),
    (r"^(q_lora_rank|kv_lora_rank|.*lora_rank|rank)$", 8),
    (
        r"(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|ffn_hidden_size|feed_forward_size|intermediate_dim|_inner_dim)$",
        2 * WIDTH,
    ),
    (
        r"^(hidden_size|d_model|n_embd|dim|emb_dim|d_embed|model_dim|embed_dim|embedding_size|word_embed_proj_dim|hidden_dim|width|"
        r"output_hidden_size|out_hidden_size|projection_dim|text_embed_dim|encoder_hidden_size|cross_attention_hidden_size|"
        r"input_dim|lru_width|embedding_dim|emb_dim|decoder_hidden_size|hidden_size_per_layer_input|backbone_hidden_size)$",
        WIDTH,
    ),
    (
        r"^(max_position_embeddings|n_positions|n_ctx|seq_length|max_seq_len|max_sequence_length|max_target_positions|max_source_positions)$",
        256,
    ),
    (r"^(sliding_window|attention_window_size|local_attention)$", 16),
    (r"^(image_size|img_size)$", 16),
    (r"^(patch_size)$", 8),
)
"""Name of a whole number → its tiny value; the first that fits counts. A value that is smaller already stays."""

_SPECIAL = {
    "pad": 0,
    "bos": 1,
    "eos": 2,
    "decoder_start": 2,
    "unk": 3,
    "sep": 2,
    "cls": 1,
    "mask": 4,
    "forced_eos": 2,
    "forced_bos": 1,
}


def tiny(model_type: str, own: Json) -> Iterator[Json]:
    """Config values worth trying for `model_type`, the smallest first; `own` overrules the rules."""
    config = config_of(model_type, own)
    ruled = {path: value for path, old in _numbers(config) if (value := _tiny(path[-1], old)) is not None}
    even = {
        path: 4 if re.search(r"kv_heads|key_value_heads|n_head_kv|num_kv_heads", path[-1]) else value
        for path, value in ruled.items()
    }
    headless = {path: value for path, value in even.items() if not re.search(RULES[5][0], path[-1])}
    for values in (ruled, even, headless):
        yield merged(merged(stated(config, values), stated(config, _ids(config))), own)


def _numbers(config: PreTrainedConfig) -> Iterator[tuple[Path, int]]:
    for path, level in levels(config).items():
        for key, value in vars(level).items():
            if type(value) is int:
                yield (*path, key), value


def _tiny(name: str, old: int) -> int | None:
    for pattern, value in RULES:
        if re.search(pattern, name):
            return value if old > value else None
    return None


def _ids(config: PreTrainedConfig) -> Mapping[Path, int]:
    """Token ids inside the tiny vocabulary; those of images and sounds apart from the ids that prompts use."""
    found: dict[Path, Any] = {}
    apart = VOCAB - 60
    for path, level in levels(config).items():
        for key, value in vars(level).items():
            if not re.search(r"(_token_id|_token_index|_token_ids)$", key) or not isinstance(value, int):
                continue
            usual = _SPECIAL.get(key.removesuffix("_token_id"))
            if usual is not None:
                found[*path, key] = usual
            elif value >= VOCAB:
                apart += 1
                found[*path, key] = apart
    return found
