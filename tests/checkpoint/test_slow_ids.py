"""The ids of tokenizers without a tokenizer.json against what the classes of the installed transformers give."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import logging
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers
from transformers import AutoTokenizer
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from tests.models.tokenizers import Folder
from vocabsurgeon.checkpoint.slow_classes import OF_NO_CLASS, SENTENCEPIECE_FILES, SLOW_CLASSES
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles, unmeasured

sentencepiece = pytest.importorskip("sentencepiece")

NOT_LOADED = {
    "AlbertTokenizer": "transformers 5.24 does not build it from spiece.model",
    "CpmTokenizer": "needs rjieba",
}
PLAIN = {"unk_id": 0, "bos_id": 1, "eos_id": 2}
PADDED = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
"""As T5, Pegasus and their kin train theirs."""
NEEDS_PADDED = {"PegasusTokenizer", "T5Tokenizer", "VideoPrismTokenizer", "LasrTokenizer", "UdopTokenizer"}


def classes() -> Iterator[type[PreTrainedTokenizerBase]]:
    """The tokenizer classes of transformers that are defined in models/*/tokenization*.py."""
    root = Path(transformers.__file__).parent
    for file in sorted(root.glob("models/*/tokenization*.py")):
        name = ".".join(file.relative_to(root).with_suffix("").parts)
        try:
            module = importlib.import_module(f"transformers.{name}")
        except (ImportError, NameError):  # a package that is not installed
            continue
        for member in vars(module).values():
            own = inspect.isclass(member) and member.__module__ == module.__name__
            if own and issubclass(member, PreTrainedTokenizerBase):
                yield member


def test_every_class_with_a_sentencepiece_file_has_a_row() -> None:
    known = {name for row in SLOW_CLASSES for name in row.names}
    found = [kind for kind in classes() if any(name in SENTENCEPIECE_FILES for name in kind.vocab_files_names.values())]
    assert len(found) > 30
    assert not sorted({kind.__name__.removesuffix("Fast") for kind in found} - known)


def test_every_sentencepiece_file_name_is_read() -> None:
    names = {name for kind in classes() for name in kind.vocab_files_names.values()}
    assert {name for name in names if name.endswith(".model")} == set(SENTENCEPIECE_FILES)


def test_the_types_of_the_rows_are_those_of_transformers() -> None:
    for row in SLOW_CLASSES:
        for model_type in row.model_types:
            assert TOKENIZER_MAPPING_NAMES[model_type].removesuffix("Fast") in row.names, model_type
    held = {model_type for row in SLOW_CLASSES for model_type in row.model_types}
    shifting = {name for row in SLOW_CLASSES if row is not OF_NO_CLASS for name in row.names}
    for model_type, name in TOKENIZER_MAPPING_NAMES.items():
        assert name is None or name.removesuffix("Fast") not in shifting or model_type in held, (model_type, name)


@cache
def model(*ids: tuple[str, int]) -> bytes:
    """A SentencePiece model of about a hundred pieces with these ids for its control pieces."""
    buffer = io.BytesIO()
    words = ["the other mother bothered another brother; a quick brown fox jumps over the lazy dog 0123456789"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words),
        model_writer=buffer,
        vocab_size=90,
        hard_vocab_limit=False,
        minloglevel=5,
        **dict(ids),
    )
    return buffer.getvalue()


def folder(path: Path, name: str, control: dict[str, int] = PLAIN, **settings: Any) -> Folder:
    """The files of a tokenizer of class `name`, but for a tokenizer.json."""
    path.mkdir()
    raw = model(*control.items())
    processor = sentencepiece.SentencePieceProcessor(model_proto=raw)
    pieces = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
    fairseq = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    written: dict[str, bytes | str] = {
        "vocab.json": json.dumps({token: number for number, token in enumerate(fairseq)}),
        "vocab.txt": "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]),
        "dict.txt": "\n".join(f"{piece} 1" for piece in pieces),
        "entity_vocab.json": json.dumps({"[UNK]": 0, "[PAD]": 1, "[MASK]": 2, "[MASK2]": 3}),
    }
    kind = getattr(transformers, name, None)
    files = set(kind.vocab_files_names.values()) if kind else {"tokenizer.model"}
    for file in files - {"tokenizer.json", "tokenizer_config.json", "target_vocab.json"}:
        content = written.get(file, raw)
        (path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    if files == {"tokenizer.json"}:
        (path / "tokenizer.model").write_bytes(raw)
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name, **settings}))
    return Folder(path)


def given(place: Folder) -> dict[str, int]:
    """Token → id as transformers gives it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            tokenizer = AutoTokenizer.from_pretrained(place.root)
        finally:
            logging.disable(logging.NOTSET)
    languages = getattr(tokenizer, "lang_token_to_id", {})
    return {**tokenizer.get_vocab(), **{token: tokenizer.convert_tokens_to_ids(token) for token in languages}}


NAMED = sorted({name for row in SLOW_CLASSES if row is not OF_NO_CLASS for name in row.names} - NOT_LOADED.keys())
SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "a role of its own": {"pad_token": "<mine>", "eos_token": "</s>"},
    "listed": {"additional_special_tokens": ["<one>", "<two>"], "image_token": "<image>"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", NAMED)
def test_ids_are_those_of_the_class(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    place = folder(tmp_path / "a", name, PADDED if name in NEEDS_PADDED else PLAIN, **settings)
    files = TokenizerFiles.read(place)
    if files is None and settings:
        assert name in ("BartphoTokenizer", "PLBartTokenizer")
        assert name in str(unmeasured(place))
        return
    assert files is not None
    assert dict(files.token_to_id) == given(place)


def test_declared_ids_of_the_added_tokens_are_kept(tmp_path: Path) -> None:
    bare = TokenizerFiles.read(folder(tmp_path / "a", "XLMRobertaTokenizer"))
    assert bare is not None
    decoder = {str(bare.max_id): {"content": "<mask>", "lstrip": True, "special": True}}
    place = folder(tmp_path / "b", "XLMRobertaTokenizer", added_tokens_decoder=decoder)
    files = TokenizerFiles.read(place)
    assert files is not None and files.findings == ()
    assert dict(files.token_to_id) == given(place) == dict(bare.token_to_id)


def test_a_type_alone_says_its_class(tmp_path: Path) -> None:
    place = folder(tmp_path / "a", "XLMRobertaTokenizer")
    (place.root / "tokenizer_config.json").write_text("{}")
    (place.root / "config.json").write_text('{"model_type": "xlm-roberta"}')
    place = Folder(place.root)
    files = TokenizerFiles.read(place)
    assert files is not None and files.class_name == "XLMRobertaTokenizer" and files.by_class == ("<pad>", "<mask>")
    assert dict(files.token_to_id) == given(place)


@pytest.mark.parametrize(("settings", "count"), [({"extra_ids": 7}, 7), ({}, 100)])
def test_sentinels_have_ids_and_no_findings(settings: dict[str, Any], count: int, tmp_path: Path) -> None:
    listed = [f"<extra_id_{number}>" for number in range(count)]
    place = folder(tmp_path / "a", "T5Tokenizer", PADDED, additional_special_tokens=listed, **settings)
    files = TokenizerFiles.read(place)
    assert files is not None and files.findings == ()
    assert files.by_class == tuple(reversed(listed))
    assert dict(files.token_to_id) == given(place)


@pytest.mark.parametrize(
    ("name", "file", "reason"),
    [
        ("OwnTokenizer", "tokenizer.model", "OwnTokenizer decides by code what ids the pieces of tokenizer.model get"),
        ("XLMRobertaTokenizer", "spiece.model", "XLMRobertaTokenizer does not read spiece.model"),
    ],
)
def test_ids_that_only_code_knows_are_not_guessed(name: str, file: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(model(*PLAIN.items()))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    place = Folder(tmp_path)
    assert TokenizerFiles.read(place) is None
    assert unmeasured(place) == reason
