"""The text and the tokenizer of the demo model: documents, the held-out split, ids. No model, no training."""

from __future__ import annotations

import ast
import json
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
BOS_ID, EOS_ID, PAD_ID = range(3)  # a trainer gives the specials the first ids
IDS, ROWS = 1990, 2048  # 58 spare rows: released tables are padded too, for the hardware
CONTEXT = 256
HELD_OUT_SHARE = 16  # one document in so many is never trained on
LEFT_OUT = {"test", "tests", "idlelib", "site-packages", "lib2to3", "pydoc_data"}


@dataclass(frozen=True)
class Document:
    """A topic of `pydoc_data.topics`, or all docstrings of a module; `name` decides if it is held out."""

    name: str
    text: str


def read_documents() -> tuple[list[Document], list[Document]]:
    """Return the training and the held-out documents of the running Python."""
    return split_documents([*topic_documents(), *docstring_documents()])


def topic_documents() -> list[Document]:
    """Return the language reference as `help()` shows it, one document a topic, sorted by name."""
    from pydoc_data.topics import topics

    return [Document(f"topics/{name}", text.strip()) for name, text in sorted(topics.items())]


def docstring_documents() -> list[Document]:
    """Return the docstrings of the standard library without its tests, one document a module, by path."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path.relative_to(root) for path in root.rglob("*.py"))
    chosen = [path for path in paths if not LEFT_OUT & set(path.parts)]
    documents = [Document(path.as_posix(), "\n\n".join(_docstrings(root / path))) for path in chosen]
    return [document for document in documents if document.text]


def _docstrings(path: Path) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield f"{node.name}: {text}" if isinstance(node, ast.ClassDef) else text


def split_documents(documents: list[Document]) -> tuple[list[Document], list[Document]]:
    """Split by a checksum of the name into training and held-out documents.

    Python's documentation repeats itself: a paragraph of 60 characters or more that also stands in a held-out
    document, or that came before, is dropped from the training text. Held-out text is left as it is.
    """
    held_out = [document for document in documents if is_held_out(document.name)]
    seen = {key for document in held_out for key in _paragraph_keys(document.text)}
    train: list[Document] = []
    for document in documents:
        fresh = [part for part in document.text.split("\n\n") if _key(part) not in seen]
        seen.update(_paragraph_keys(document.text))
        if fresh and not is_held_out(document.name):
            train.append(Document(document.name, "\n\n".join(fresh)))
    return train, held_out


def is_held_out(name: str) -> bool:
    """Tell whether the document called `name` is kept for measuring."""
    return zlib.crc32(name.encode()) % HELD_OUT_SHARE == 0


def _paragraph_keys(text: str) -> Iterator[str]:
    # A short paragraph ("Example:") says nothing about where it came from, so it is new every time.
    return (_key(part) for part in text.split("\n\n") if len(part) >= 60)


def _key(paragraph: str) -> str:
    return " ".join(paragraph.split())


def train_tokenizer(documents: list[Document]) -> Tokenizer:
    """Train a byte-level BPE of `IDS` ids, specials first, that puts `BOS` before a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=IDS,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((document.text for document in documents), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, BOS_ID)]
    )
    return tokenizer


def encode_stream(tokenizer: Tokenizer, documents: list[Document]) -> Tensor:
    """Return the ids of all documents in one row `[N]` int64, `EOS` after each and no `BOS`."""
    import torch

    ids: list[int] = []
    for document in documents:
        ids += [*tokenizer.encode(document.text, add_special_tokens=False).ids, EOS_ID]
    return torch.tensor(ids)


def windows(stream: Tensor) -> Tensor:
    """Cut `stream [N]` into `[n, CONTEXT]`: `BOS` and `CONTEXT - 1` ids each; a short rest is dropped."""
    import torch

    width = CONTEXT - 1
    body = stream[: len(stream) // width * width].view(-1, width)
    return torch.cat([torch.full((len(body), 1), BOS_ID), body], dim=1)


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and the two files beside it, with the keys that released checkpoints have."""
    roles = {"bos_token": BOS, "eos_token": EOS, "pad_token": PAD}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    settings = {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {"content": token} | flags for token in roles.values()
        },
        **roles,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in (("tokenizer_config.json", settings), ("special_tokens_map.json", roles)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
