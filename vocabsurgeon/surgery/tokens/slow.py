"""Tokenizers without a tokenizer.json: converted by transformers, and the conversion checked id for id."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any, Protocol

from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.checkpoint.vocabulary_files import Folder
from vocabsurgeon.errors import one_line
from vocabsurgeon.surgery.tokens.refusal import TokenRefusal


class RootedFolder(Folder, Protocol):
    """A folder that says where it lies, for readers that open files themselves."""

    @property
    def root(self) -> Path:
        """The folder's path."""


def converted(folder: RootedFolder, files: TokenizerFiles) -> TokenizerFiles | TokenRefusal:
    """The tokenizer with a tokenizer.json in memory; nothing is written and no code of the checkpoint is run.

    Refused where transformers has no conversion, or one that gives a token another id than `files`, which know how the
    class counts, and where the class counted otherwise when models were trained.
    """
    if files.disputed:
        return _refusal(files.disputed)
    try:
        raw = _tokenizer_json(folder.root)
    except Exception as error:  # whatever transformers, protobuf or sentencepiece raise: the reason is passed on
        return _refusal(f"transformers does not convert it: {one_line(str(error)) or type(error).__name__}")
    if raw is None:
        return _refusal("transformers has no tokenizer.json form of this class")
    ready = TokenizerFiles.with_fast(folder, raw)
    moved = [token for token, number in files.token_to_id.items() if ready.token_to_id.get(token) != number]
    if moved:
        token = moved[0]
        return _refusal(
            f"converted by transformers, {token!r} has id {ready.token_to_id.get(token)}, and its files say "
            f"{files.token_to_id[token]} ({len(moved)} tokens differ)"
        )
    return ready


def _tokenizer_json(root: Path) -> bytes | None:
    from transformers import AutoTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            tokenizer = AutoTokenizer.from_pretrained(root, local_files_only=True, trust_remote_code=False)
        finally:
            logging.disable(logging.NOTSET)
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    return None if backend is None else str(backend.to_str(pretty=True)).encode()


def _refusal(reason: str) -> TokenRefusal:
    return TokenRefusal(
        "the tokenizer has no tokenizer.json and cannot be given one",
        evidence=(reason,),
        hint="fetch its tokenizer.json, or save one with AutoTokenizer.from_pretrained(...).save_pretrained(...) in "
        "the version of transformers that it was made with, and check its ids",
    )
