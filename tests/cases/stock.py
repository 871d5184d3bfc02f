"""`B` and `T` of CASES.md, and what transformers alone makes of a checkpoint: load, resize to the tokenizer, save."""

from __future__ import annotations

from pathlib import Path

from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import with_config

_SMALL = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def t5(folder: Path) -> Path:
    """`T` in the style of v1.1: gated-gelu, a head of its own, flag false."""
    import torch
    import transformers

    config = transformers.T5Config(
        vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu"
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = transformers.T5ForConditionalGeneration(config)
        built.lm_head.weight = torch.nn.Parameter(torch.randn(32, 16) * 0.5)
    built.save_pretrained(folder)
    write_tokenizer(folder, 32)
    return with_config(folder, tie_word_embeddings=False, scale_decoder_outputs=False)


def bert(folder: Path) -> Path:
    """`B` untied, with `decoder.bias = arange`."""
    import torch
    import transformers

    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        built = transformers.BertForMaskedLM(
            transformers.BertConfig(**_SMALL, intermediate_size=32, tie_word_embeddings=False)
        )
        built.cls.predictions.decoder.bias.copy_(torch.arange(32.0))
    built.save_pretrained(folder)
    write_tokenizer(folder, 32)
    return folder


def roberta(folder: Path) -> Path:
    """As `bert`, of the RoBERTa kind: its result does not load again."""
    import torch
    import transformers

    special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        built = transformers.RobertaForMaskedLM(
            transformers.RobertaConfig(**_SMALL, **special, intermediate_size=32, tie_word_embeddings=False)
        )
        built.lm_head.decoder.bias.copy_(torch.arange(32.0))
    built.save_pretrained(folder)
    write_tokenizer(folder, 32)
    return folder


def resized(source: Path, out: Path, auto: str, rows: int) -> Path:
    """What `resize_token_embeddings(rows)` and a save leave, with a tokenizer of as many entries."""
    import transformers

    model = getattr(transformers, auto).from_pretrained(source)
    model.resize_token_embeddings(rows)
    model.save_pretrained(out)
    write_tokenizer(out, rows)
    return out
