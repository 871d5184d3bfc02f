"""Which tables grow with the vocabulary, and what each kind of table needs; Marian's two vocabularies end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import bits, config_of, tensors_of
from vocabsurgeon.checkpoint.dtypes import by_name
from vocabsurgeon.checkpoint.edits import CopyOf, MeanOf, Normal
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.surgery.extend_plan import RowCounts
from vocabsurgeon.surgery.extend_tables import table_edit
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.row_init import RowContext
from vocabsurgeon.surgery.run import extend
from vocabsurgeon.vocabulary.tables import Table

CONTEXT = RowContext(((0, 10),), 0.02, 0)
COUNTS = RowCounts(10, 12, tokens=(11,), filled=(10,), padding=())
ROWS = {10: MeanOf((3,)), 11: MeanOf((1, 2))}


def _table(shape: tuple[int, ...], dtype: str = "F32", **beyond: Any) -> Table:
    info = TensorInfo("t", by_name()[dtype], shape, "model.safetensors", 0, 0)
    return Table("input", "t", info, 0, **beyond)


def test_rows_behind_the_vocabulary_keep_their_numbers() -> None:
    edit = table_edit(_table((13, 4), beyond=3), ROWS, CONTEXT, COUNTS)
    assert edit.size == 15 and dict(edit.rows)[11] == MeanOf((1, 2))
    assert set(dict(edit.rows)) == {11, 13, 14}  # 10 is an image's row already; 13 and 14 are new


def test_rows_behind_the_vocabulary_move_where_the_model_counts_them_from_the_size() -> None:
    edit = table_edit(_table((13, 4), beyond=3, beyond_moves=True), ROWS, CONTEXT, COUNTS)
    assert dict(edit.rows) == {**ROWS, 12: CopyOf(10), 13: CopyOf(11), 14: CopyOf(12)} and edit.size == 15


def test_whole_numbers_are_those_of_the_first_piece() -> None:
    rows = {10: Normal(0, 0.02), 11: MeanOf((2, 1))}
    assert dict(table_edit(_table((10, 4), "I64"), rows, CONTEXT, COUNTS).rows) == {10: CopyOf(0), 11: CopyOf(2)}


def test_a_bias_gets_no_noise() -> None:
    edit = table_edit(_table((10,)), {10: Normal(0, 1.0), 11: MeanOf((2,))}, CONTEXT, COUNTS)
    assert dict(edit.rows) == {10: MeanOf((), ((0, 10),)), 11: MeanOf((2,))}


def _marian(folder: Path, target: int, tied: bool = True, **config: Any) -> Path:
    torch.manual_seed(0)
    small = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    small |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 32}
    small |= {"pad_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": 2, "decoder_start_token_id": 2}
    settings = transformers.MarianConfig(**small, decoder_vocab_size=target, tie_word_embeddings=tied, **config)
    transformers.MarianMTModel(settings).save_pretrained(folder)
    write_tokenizer(folder, 32)
    return folder


def _apart(folder: Path, target: int, tied: bool = True) -> Path:
    return _marian(folder, target, tied, share_encoder_decoder_embeddings=False)


def _logits(folder: Path) -> np.ndarray[Any, Any]:
    model, info = transformers.MarianMTModel.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    ids = torch.tensor([[3, 5, 9, 2]])
    with torch.no_grad():
        found: np.ndarray[Any, Any] = model.eval()(input_ids=ids, decoder_input_ids=ids.flip(1)).logits.numpy()
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_one_side_of_two_vocabularies_grows_alone(tied: bool, tmp_path: Path) -> None:
    source, out = _apart(tmp_path / "source", 40, tied), tmp_path / "out"
    refused = extend(source, out, extend_request(["<a>"]))
    assert isinstance(refused, Refusal) and refused.exit_code == 2 and "--side encoder" in refused.ways_out[0]
    report = extend(source, out, extend_request(["<a>"], side="encoder"))
    assert not isinstance(report, Refusal) and report.passed
    assert config_of(out)["vocab_size"] == 33 and config_of(out)["decoder_vocab_size"] == 40
    grown = {key for key, tensor in tensors_of(out).items() if bits(tensor) != bits(tensors_of(source)[key])}
    assert grown == {"model.encoder.embed_tokens.weight"}
    assert np.array_equal(_logits(source), _logits(out))


def test_an_id_that_the_second_vocabulary_may_use_is_not_taken(tmp_path: Path) -> None:
    source = _apart(tmp_path / "source", 40)
    refused = extend(source, tmp_path / "out", extend_request(["<a>"], side="decoder"))
    assert isinstance(refused, Refusal) and "id 32 has a row on the decoder's side" in refused.reason
    write_tokenizer(source, 40)
    report = extend(source, tmp_path / "out", extend_request(["<a>"], side="decoder"))
    assert not isinstance(report, Refusal) and report.passed
    config = config_of(tmp_path / "out")
    assert (config["vocab_size"], config["decoder_vocab_size"]) == (32, 41)
    assert np.array_equal(_logits(source), _logits(tmp_path / "out")[..., :40])


def test_one_vocabulary_grows_as_one(tmp_path: Path) -> None:
    source, out = _marian(tmp_path / "source", 32), tmp_path / "out"
    refused = extend(source, out, extend_request(["<a>"], side="encoder"))
    assert isinstance(refused, Refusal) and "one vocabulary" in refused.reason
    report = extend(source, out, extend_request(["<a>"]))
    assert not isinstance(report, Refusal) and report.passed
    assert config_of(out)["vocab_size"] == config_of(out)["decoder_vocab_size"] == 33
    assert np.array_equal(_logits(source), _logits(out)[..., :32])
