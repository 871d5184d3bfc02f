"""What tokenizer classes make of a slow tokenizer's file: the ids that code fixes and no file states. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from vocabsurgeon.checkpoint.language_codes import M2M100, MBART, MBART50, MUSTC, PLBART

SENTENCEPIECE_FILES = (
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "sentencepiece.model",
    "spm_char.model",
)


@dataclass(frozen=True)
class CountedTail:
    """Tokens as many as a setting says: `text` with the numbers from `first` up to the setting (or `default`)."""

    setting: str | None
    default: int
    text: str
    first: int = 0
    descending: bool = False


@dataclass(frozen=True)
class ListedTail:
    """The tokens that stand under the setting's value (or `default`) in `lists`; none where that is no key of it."""

    setting: str
    default: str | None
    lists: Mapping[str, tuple[str, ...]]


Tail = str | CountedTail | ListedTail
"""A token in itself, where `{mask}` is the token with that role, or several."""
_FAIRSEQ = ("{bos}", "{pad}", "{eos}", "{unk}")
_ROLES = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
_LLAMA_ROLES = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
_T5_ROLES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_BERT_ROLES = {"bos": "[CLS]", "eos": "[SEP]", "sep": "[SEP]", "cls": "[CLS]", "mask": "[MASK]"}
_XGLM_ROLES = {role: content for role, content in _ROLES.items() if role != "mask"}
_XLNET_ROLES = {**_ROLES, "sep": "<sep>", "cls": "<cls>"}


@dataclass(frozen=True)
class SlowClass:
    """One row: class `names` (without a final `Fast`) and how they count the entries of the first of `files`.

    The vocabulary is `head`, the file's entries without the first `skip`, `tail`. Behind it come, where they have no id
    yet, the tokens with a role (`roles` are the class's own, those of a checkpoint go before), the class's `named`
    ones, and those that the settings list or, where they list none, `extras`. In a head or tail `{bos}` stands for the
    token with that role.
    """

    names: tuple[str, ...]
    files: tuple[str, ...]
    roles: Mapping[str, str]
    head: tuple[Tail, ...] = ()
    skip: int = 0
    tail: tuple[Tail, ...] = ()
    named: tuple[str, ...] = ()
    extras: tuple[Tail, ...] = ()
    repeats: Literal["later", "first"] = "later"
    """Which of two entries with the same text keeps its id; where it is the first, the others get none."""
    before: str | None = None
    """What transformers 4 does otherwise, so that the ids of 5.24 need not be those that the model was trained with."""
    unless: str = ""
    """A token that shows, where the files give it an id, that they settle what `before` says."""
    appends: bool = True
    """False where the ids of what comes behind the vocabulary depend on more than this."""
    model_types: tuple[str, ...] = ()
    """The types whose class this is where the files name none."""


SLOW_CLASSES: tuple[SlowClass, ...] = (
    # <s> <pad> </s> <unk> go before, three control pieces of the file are dropped: all others move by one.
    SlowClass(
        ("XLMRobertaTokenizer", "LayoutXLMTokenizer"),
        ("sentencepiece.bpe.model",),
        _ROLES,
        head=_FAIRSEQ,
        skip=3,
        tail=("{mask}",),
        model_types=("xlm-roberta", "layoutxlm", "xmod", "gte", "jina_embeddings_v3", "metaclip_2", "trocr"),
    ),
    SlowClass(
        ("MBartTokenizer",),
        ("sentencepiece.bpe.model",),
        _ROLES,
        head=_FAIRSEQ,
        skip=3,
        tail=(*MBART, "{mask}"),
        model_types=("mbart",),
    ),
    SlowClass(
        ("MBart50Tokenizer",),
        ("sentencepiece.bpe.model",),
        {role: content for role, content in _ROLES.items() if role != "bos"},
        head=("{cls}", "{pad}", "{eos}", "{unk}"),
        skip=3,
        tail=(*MBART50, "{mask}"),
        model_types=("mbart50",),
    ),
    SlowClass(
        ("NllbTokenizer",),
        ("sentencepiece.bpe.model",),
        _ROLES,
        head=_FAIRSEQ,
        repeats="first",
        before="puts 202 language codes between the pieces and <mask>",
        unless="eng_Latn",
        model_types=("nllb", "nllb-moe"),
    ),
    SlowClass(
        ("PLBartTokenizer",),
        ("sentencepiece.bpe.model",),
        _ROLES,
        head=("<s>", "<pad>", "</s>", "<unk>"),
        skip=3,
        tail=(ListedTail("language_codes", "base", PLBART),),
        appends=False,
        model_types=("plbart",),
    ),
    SlowClass(
        ("SeamlessM4TTokenizer",),
        ("sentencepiece.bpe.model",),
        _XGLM_ROLES,
        head=("<pad>", "<unk>", "<s>", "</s>"),
        skip=3,
        model_types=("seamless_m4t", "seamless_m4t_v2"),
    ),
    SlowClass(
        ("CamembertTokenizer",),
        ("sentencepiece.bpe.model",),
        _ROLES,
        head=("<s>NOTUSED", "{pad}", "</s>NOTUSED", "{unk}", "<unk>NOTUSED"),
        skip=1,
        tail=("{mask}",),
        model_types=("camembert",),
    ),
    SlowClass(
        ("BartphoTokenizer",),
        ("dict.txt",),
        _ROLES,
        head=(*_FAIRSEQ, "{sep}", "{cls}"),
        tail=("{mask}",),
        repeats="first",
        appends=False,
        model_types=("bartpho",),
    ),
    SlowClass(
        ("PegasusTokenizer",),
        ("spiece.model",),
        {**_T5_ROLES, "mask": "<mask_1>", "mask_sent": "<mask_2>"},
        head=("{pad}", "{eos}", "{mask}", "{mask_sent}", CountedTail("offset", 103, "<unk_{}>", first=2)),
        skip=2,
        model_types=("pegasus",),
    ),
    # The ids are the file's; sentinels follow behind its end.
    SlowClass(
        ("T5Tokenizer", "VideoPrismTokenizer"),
        ("spiece.model",),
        _T5_ROLES,
        tail=(CountedTail("extra_ids", 100, "<extra_id_{}>", descending=True),),
        model_types=("t5", "mt5", "switch_transformers", "musicgen", "musicgen_melody", "videoprism"),
    ),
    SlowClass(
        ("LasrTokenizer",),
        ("spiece.model",),
        _T5_ROLES,
        extras=(CountedTail("extra_ids", 100, "<extra_id_{}>"),),
        model_types=("lasr_ctc", "lasr_encoder"),
    ),
    SlowClass(
        ("XGLMTokenizer",),
        ("tokenizer.model",),
        _XGLM_ROLES,
        extras=(CountedTail(None, 7, "<madeupword{}>"),),
        before="moves the pieces by one, behind <s>, <pad>, </s> and <unk>",
        model_types=("xglm",),
    ),
    # The ids are those of vocab.json, the languages follow behind them.
    SlowClass(
        ("M2M100Tokenizer",),
        ("vocab.json",),
        {role: content for role, content in _ROLES.items() if role not in ("cls", "mask")},
        tail=(ListedTail("language_codes", "m2m100", M2M100),),
        model_types=("m2m_100",),
    ),
    SlowClass(
        ("Speech2TextTokenizer",),
        ("vocab.json",),
        {**_LLAMA_ROLES, "pad": "<pad>"},
        extras=(ListedTail("lang_codes", None, MUSTC),),
        model_types=("speech_to_text",),
    ),
    SlowClass(("MarianTokenizer",), ("vocab.json",), _T5_ROLES, model_types=("marian",)),
    # The ids are the file's. Roles that it does not hold get ids behind its end.
    SlowClass(("LlamaTokenizer",), ("tokenizer.model",), _LLAMA_ROLES, model_types=("idefics", "idefics2")),
    SlowClass(
        ("CodeLlamaTokenizer",),
        ("tokenizer.model",),
        _LLAMA_ROLES,
        named=("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>", "<FILL_ME>"),
        model_types=("code_llama",),
    ),
    SlowClass(
        ("GemmaTokenizer",),
        ("tokenizer.model",),
        {"bos": "<bos>", "eos": "<eos>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"},
        model_types=(
            "gemma",
            "gemma2",
            "gemma3",
            "gemma3_text",
            "gemma3n",
            "gemma3n_text",
            "recurrent_gemma",
            "t5gemma",
            "diffusion_gemma",
            "shieldgemma2",
            "zaya",
        ),
    ),
    SlowClass(
        ("AlbertTokenizer",),
        ("spiece.model",),
        {**_BERT_ROLES, "unk": "<unk>", "pad": "<pad>"},
        model_types=("albert", "yoso"),
    ),
    SlowClass(  # bos and eos are the file's
        ("FNetTokenizer",),
        ("spiece.model",),
        {"unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]", "mask": "[MASK]"},
        model_types=("fnet",),
    ),
    SlowClass(
        ("RemBertTokenizer",),
        ("sentencepiece.model",),
        {**_BERT_ROLES, "unk": "<unk>", "pad": "<pad>"},
        model_types=("rembert",),
    ),
    SlowClass(
        ("DebertaV2Tokenizer",),
        ("spm.model",),
        {**_BERT_ROLES, "unk": "[UNK]", "pad": "[PAD]"},
        model_types=("deberta-v2",),
    ),
    SlowClass(
        ("BigBirdTokenizer",),
        ("spiece.model",),
        {**_ROLES, "sep": "[SEP]", "cls": "[CLS]", "mask": "[MASK]"},
        model_types=("big_bird",),
    ),
    SlowClass(("BarthezTokenizer",), ("sentencepiece.bpe.model",), _ROLES, model_types=("barthez",)),
    SlowClass(
        ("MLukeTokenizer",),
        ("sentencepiece.bpe.model",),
        _ROLES,
        named=("▁<ent>", "▁<ent2>", "[UNK]", "[PAD]", "[MASK]", "[MASK2]"),
        before="moves the pieces by one, behind <s>, <pad>, </s> and <unk>",
        model_types=("mluke",),
    ),
    SlowClass(
        ("BertGenerationTokenizer",),
        ("spiece.model",),
        {**_LLAMA_ROLES, "sep": "<::::>", "pad": "<pad>"},
        model_types=("bert-generation",),
    ),
    SlowClass(
        ("GPTSw3Tokenizer",),
        ("spiece.model",),
        {"bos": "<s>", "eos": "<|endoftext|>", "unk": "<unk>", "pad": "<pad>"},
        model_types=("gpt-sw3",),
    ),
    SlowClass(("XLNetTokenizer",), ("spiece.model",), _XLNET_ROLES, model_types=("xlnet",)),
    # Read, not run: it needs rjieba.
    SlowClass(("CpmTokenizer",), ("spiece.model",), _XLNET_ROLES, extras=("<eop>", "<eod>"), model_types=("cpm",)),
    SlowClass(("ReformerTokenizer",), ("spiece.model",), {"eos": "</s>", "unk": "<unk>"}, model_types=("reformer",)),
    SlowClass(
        ("SiglipTokenizer",), ("spiece.model",), {"eos": "</s>", "unk": "<unk>", "pad": "</s>"}, model_types=("siglip",)
    ),
    SlowClass(("SpeechT5Tokenizer",), ("spm_char.model",), {**_LLAMA_ROLES, "pad": "<pad>"}, model_types=("speecht5",)),
    SlowClass(("UdopTokenizer",), ("spiece.model",), {**_T5_ROLES, "sep": "</s>"}, model_types=("udop",)),
    SlowClass(("Tipsv2Tokenizer",), ("tokenizer.model",), {"unk": "<unk>", "pad": "<pad>"}, model_types=("tipsv2",)),
    SlowClass(
        ("Qwen3_5Tokenizer",),
        ("tokenizer.model",),
        {"eos": "<|endoftext|>", "unk": "<|endoftext|>", "pad": "<|endoftext|>"},
        model_types=("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen4_exp"),
    ),
    SlowClass(
        ("BertJapaneseTokenizer",),
        ("vocab.txt", "spiece.model"),
        {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"},
        model_types=("bert-japanese",),
    ),
    SlowClass(
        (
            "ParakeetTokenizer",
            "TokenizersBackend",
            "PythonBackend",
            "SentencePieceBackend",
            "PreTrainedTokenizer",
            "PreTrainedTokenizerFast",
            "MistralCommonBackend",
        ),
        SENTENCEPIECE_FILES,
        {},
    ),
)
"""Each read in the class's source and `convert_slow_tokenizer` of transformers 5.24 and, but for Cpm, seen on it."""

OF_NO_CLASS = SLOW_CLASSES[-1]
"""Where the files name no class, and the type has none of its own: `TokenizersBackend` takes the file's ids."""
