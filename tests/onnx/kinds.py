"""Tiny models that are no decoder-only model with a cache: encoders and encoder–decoders, a row a kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COMMON = {"vocab_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = COMMON | {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
}
BART = COMMON | {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 128,
    "decoder_start_token_id": 2,
}
T5 = COMMON | {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
MODERN = BERT | {"local_attention": 8, "global_attn_every_n_layers": 2, "max_position_embeddings": 64}
WHISPER = BART | {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 64}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForMaskedLM", BERT),
    "modernbert": ("ModernBertConfig", "ModernBertForMaskedLM", MODERN),
    "bart": ("BartConfig", "BartForConditionalGeneration", BART),
    "t5": ("T5Config", "T5ForConditionalGeneration", T5),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration", WHISPER),
    "bert body": ("BertConfig", "BertModel", BERT),
}


def save(name: str, folder: Path, **config: Any) -> Path:
    """A random model of `MODELS`, every parameter random."""
    import torch
    import transformers

    config_class, model_class, row = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**(row | config))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        for key, buffer in model.named_buffers():
            if key.endswith("final_logits_bias"):
                buffer.copy_(torch.randn_like(buffer))
    model.save_pretrained(folder)
    return folder
