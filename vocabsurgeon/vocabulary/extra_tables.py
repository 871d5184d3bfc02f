"""Names of tensors with a vocabulary axis that transformers' classes do not have, and what becomes of each. Data only.

Readers drop or ignore most of them (`_keys_to_ignore_on_load_unexpected`); other engines read them from the same files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DRAFT = r"(^|\.)(mtp|nextn)(_\w+)?\.(layers\.)?(\d+\.)?((emb|transformer|shared_head)\.)*"
_EMBEDDING = r"(embed_tokens|embed|tok_emb|tok_embeddings|word_embeddings|wte|embeddings?)"
_HEAD = r"(lm_head|head|output|output_layer|embed_out)"


@dataclass(frozen=True)
class ExtraName:
    """A pattern that a key is searched for, what such a tensor is, and where the name comes from."""

    pattern: re.Pattern[str]
    what: str
    seen: str

    def fits(self, key: str) -> bool:
        """Whether `key` bears such a name, below whatever prefix."""
        return self.pattern.search(key) is not None


def _named(pattern: str, what: str, seen: str) -> ExtraName:
    return ExtraName(re.compile(pattern), what, seen)


COPIES: tuple[ExtraName, ...] = (
    _named(
        r"(^|\.)layers\.\d+\.embed_tokens\.weight$",
        "the embedding of a multi-token-prediction layer",
        "DeepSeek-V3, GLM-4.5, GLM-4.6 files; vllm deepseek_mtp, glm4_moe_mtp",
    ),
    _named(
        r"(^|\.)layers\.\d+\.(\w+\.)?shared_head\.(head|output)\.(weight|bias)$",
        "the head of a multi-token-prediction layer",
        "DeepSeek-V3, GLM-4.5 (head), Step-3.5 (transformer.shared_head.output) files; vllm, sglang deepseek_nextn",
    ),
    _named(
        rf"{_DRAFT}{_EMBEDDING}\.weight$",
        "the embedding of a multi-token-prediction layer",
        "LongCat-Flash (model.mtp.embed_tokens), DeepSeek-V4 (mtp.N.emb.tok_emb), Qwen3.5 with "
        "mtp_use_dedicated_embeddings (mtp.embed_tokens) files; vllm, sglang",
    ),
    _named(
        rf"{_DRAFT}{_HEAD}\.(weight|bias)$",
        "the head of a multi-token-prediction layer",
        "DeepSeek-V4 (mtp.N.head), Qwen3.5 (mtp.lm_head), LongCat-Flash (model.mtp.lm_head) files; vllm, sglang",
    ),
    _named(
        r"(^|\.)(medusa_heads?|medusa)\.(\d+\.)+(weight|bias)$",
        "a Medusa head",
        "FasterDecoding/Medusa: medusa_head.N.M.weight, the last of each block is [V, D]",
    ),
    _named(
        r"(^|\.)speculator\.(emb|head)\.\d+\.weight$",
        "a table of an MLP speculator",
        "IBM's mlp_speculator files; vllm mlp_speculator",
    ),
    _named(
        r"(^|\.)tid2eid$",
        "a map from tokens to experts",
        "DeepSeek-V4's hash layers, in multi-token-prediction layers too",
    ),
)
"""Tables that grow along with the vocabulary: new rows are made of their own old ones."""

OTHER_RULES: tuple[ExtraName, ...] = (
    _named(
        r"(^|\.)(d2t|t2d|token_map|hot_token_ids?|draft_id_to_target_id)(\.weight)?$",
        "a map between a draft's ids and the model's",
        "EAGLE-3 (d2t, t2d), Medusa with a cut vocabulary (token_map), FR-Spec; vllm llama_eagle3, sglang",
    ),
    _named(
        r"(^|\.)lora_(embedding_)?[AB](\.\w+)*$",
        "a part of a LoRA adapter that was not merged",
        "peft: lora_embedding_A [r, V], lora_B [V, r] of an LM head",
    ),
    _named(
        r"(^|[._])trainable_tokens_(delta|original|indices)",
        "a part of an adapter of single tokens",
        "peft TrainableTokensModel",
    ),
    _named(
        r"(^|[._])(logits?|vocab|vocabulary|tokens?|suppress|allowed|allow|forbidden|banned|bad_words)"
        r"_(mask|bias|biases|prior|priors|penalty|penalties)$",
        "a value for each id that is laid on the logits",
        "BART's final_logits_bias, masks of unused ids in padded vocabularies",
    ),
)
"""Tensors bound to ids by a rule of their own: what a new id should have there, no row can tell."""

TELLING = re.compile(
    r"(^|[._])(un)?(embed(s|ding|dings|der)?|emb|wte|lm_?heads?|head|logits?|vocab(ulary)?|tok(en|ens)?|words?|lexicon"
    r"|lexical|unigrams?|ids)([._]|\d*$)",
    re.IGNORECASE,
)
"""Words in a key by which a tensor whose size could be anything counts as one over the vocabulary."""

NOT_TELLING = re.compile(
    r"norm|(^|[._])ln|attn|attention|rope|mask_token|cls_token|bos_token|query|router|expert|conv|proj|dense|transform|mapping|(^|[._])gate",
    re.IGNORECASE,
)
"""What such a word belongs to in names of other things."""
