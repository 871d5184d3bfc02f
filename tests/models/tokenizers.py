"""Tokenizers of every model kind, built here by the `tokenizers` library, and a folder that holds one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from vocabsurgeon.checkpoint.edits import WriteFile
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles

CORPUS = [
    "the other mother bothered another brother with some other weather",
    "a quick brown fox jumps over the lazy dog and the tool is new",
    "def f(x): return x + 1  # naïve café 語 مرحبا 😀",
] * 4


class Folder:
    """A checkpoint's folder as far as the tokenizer's readers need it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def files(self) -> tuple[str, ...]:
        below = (path for path in self.root.rglob("*") if path.is_file())
        return tuple(sorted(path.relative_to(self.root).as_posix() for path in below))

    def has(self, name: str) -> bool:
        return (self.root / name).is_file()

    def read_bytes(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def read_json(self, name: str) -> Any:
        return json.loads(self.read_bytes(name))

    @cached_property
    def tokenizer(self) -> TokenizerFiles | None:
        return TokenizerFiles.read(self)

    def copied_to(self, target: Path, edits: tuple[WriteFile, ...] = ()) -> Folder:
        """This folder with `edits` made, under another path."""
        target.mkdir()
        for name in self.files:
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(self.read_bytes(name))
        for edit in edits:
            (target / edit.name).write_bytes(edit.content)
        return Folder(target)


def folder(path: Path, tokenizer: Tokenizer, **siblings: Mapping[str, Any]) -> Folder:
    """`tokenizer` saved below `path`, with a JSON file for each of `siblings` (name without `.json`)."""
    path.mkdir(exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    for name, value in siblings.items():
        (path / f"{name}.json").write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Folder(path)


def word_level(size: int = 100, ids: tuple[int, ...] = ()) -> Tokenizer:
    """`w0`, `w1`, … and `<unk>` as id 0; `ids` gives the ids where they are not 0 to size - 1."""
    numbers = ids or tuple(range(size))
    names = ["<unk>", *(f"w{number}" for number in numbers[1:])]
    built = Tokenizer(models.WordLevel(dict(zip(names, numbers, strict=True)), unk_token="<unk>"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    return built


def byte_level() -> Tokenizer:
    """GPT-2 style."""
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    built.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return built


BYTE_LEVEL_IDS = byte_level().get_vocab_size()


def metaspace() -> Tokenizer:
    """Llama 2 style: spaces become ▁, one is prepended, unknown characters fall back to bytes."""
    built = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    built.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    built.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{number:02X}>" for number in range(256))]
    corpus = ["".join(c for c in line if c.isascii()) for line in CORPUS]
    built.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=420, special_tokens=specials, show_progress=False))
    data = json.loads(built.to_str())
    data["added_tokens"] = [entry for entry in data["added_tokens"] if entry["id"] < 3]
    data["post_processor"] = _template("<s>", 1)
    return Tokenizer.from_str(json.dumps(data))


def unigram() -> Tokenizer:
    """T5 style."""
    built = Tokenizer(models.Unigram())
    built.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    built.pre_tokenizer = pre_tokenizers.Metaspace()
    built.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    built.train_from_iterator(CORPUS, trainer)
    return built


def word_piece() -> Tokenizer:
    """BERT style, lower-casing."""
    built = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    built.normalizer = normalizers.BertNormalizer(lowercase=True)
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    built.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    built.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=specials, show_progress=False)
    )
    built.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return built


KINDS: Mapping[str, Callable[[], Tokenizer]] = {
    "word_level": word_level,
    "byte_level": byte_level,
    "metaspace": metaspace,
    "unigram": unigram,
    "word_piece": word_piece,
}


def decoder_entries(tokenizer: Tokenizer) -> dict[str, Any]:
    """`added_tokens_decoder` of a tokenizer_config.json for `tokenizer`."""
    fields = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    entries = json.loads(tokenizer.to_str())["added_tokens"]
    return {str(entry["id"]): {field: entry[field] for field in fields} for entry in entries}


def _template(token: str, number: int) -> dict[str, Any]:
    special = {"SpecialToken": {"id": token, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": place}} for place, name in enumerate("AB"))
    known = {token: {"id": token, "ids": [number], "tokens": [token]}}
    return {
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, special, second],
        "special_tokens": known,
    }
