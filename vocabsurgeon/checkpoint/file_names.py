"""Names of the files that tokenizers and processors read or write, as glob patterns. Data only."""

from __future__ import annotations

_OF_EVERY_TOKENIZER = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
}
"""The constants of `tokenization_utils_base` and `utils/hub` (`CHAT_TEMPLATE_FILE`, `LEGACY_…`); transformers 5.24."""

_OF_ONE_CLASS = {
    "bpe.codes",
    "byte_maps.json",
    "dict.txt",
    "emoji.json",
    "entity_vocab.json",
    "merges.txt",
    "normalizer.json",
    "prophetnet.tokenizer",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "source.spm",
    "spiece.model",
    "spm.model",
    "spm_char.model",
    "target.spm",
    "target_vocab.json",
    "tokenizer.model",
    "vocab-src.json",
    "vocab-tgt.json",
    "vocab.json",
    "vocab.txt",
    "word_pronunciation.json",
    "word_shape.json",
}
"""`vocab_files_names` of every class in transformers 5.24's models/*/tokenization*.py."""

_OF_OTHER_READERS = {
    "*tekken*.json",  # mistral-common's `is_tekken`; transformers 5.24 converts it (integrations/mistral)
    "tokenizer.model.v*",  # mistral-common's SentencePiece models, by version of the chat format
    "tiktoken.model",  # `TIKTOKEN_LEGACY_NAME` of tokenization_utils_tokenizers, transformers 5.24
    "*.tiktoken",  # `vocab_files_names` of Qwen's own first tokenizer (remote code)
    "vocab.bpe",  # the merges of OpenAI's GPT-2, `encoder.json` beside it; transformers before 4
    "encoder.json",
    "vocabulary.json",  # faster-whisper and CTranslate2
    "vocabulary.txt",
    "shared_vocabulary.*",
}

TOKENIZER_FILES = frozenset(_OF_EVERY_TOKENIZER | _OF_ONE_CLASS | _OF_OTHER_READERS)
"""A file with such a name, in any folder, belongs to a tokenizer."""

TOKENIZER_FOLDERS = frozenset({"additional_chat_templates", "chat_templates"})
"""`CHAT_TEMPLATE_DIR` of transformers 5.24 and the name its early form had: chat templates beside the default."""

TOKENIZERS_APART = frozenset({"question_encoder_tokenizer", "generator_tokenizer"})
"""Folders into which RAG's tokenizer saves the tokenizers of its two models; transformers 5.24."""

PROCESSOR_FILES = frozenset(
    {
        "preprocessor_config.json",
        "processor_config.json",
        "video_preprocessor_config.json",
        "audio_tokenizer_config.json",
        "speaker_embeddings_path.json",  # Bark; the voices lie in folders that it names
    }
)
"""`*_NAME` of transformers 5.24's `utils`, and what single classes of models/*/processing*.py read."""
