"""More weights than one protobuf message may hold: 2.4 GB, made here. Minutes, so it runs with the benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from vocabsurgeon.onnx.export import export
from vocabsurgeon.onnx.files import read_onnx

pytestmark = pytest.mark.bench
ROWS, WIDTH = 300_000, 1024
PROTOBUF = 2**31


def test_more_than_two_gigabytes_are_exported_and_pass(tmp_path: Path) -> None:
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=ROWS,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=8,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o")
    assert report.passed, report.notes
    assert report.audit.bytes.stored > PROTOBUF
    assert report.audit.bytes.ratio <= 1.01
    assert (tmp_path / "o" / "model.onnx").stat().st_size < 1_000_000
    assert max(t.offset for t in read_onnx(tmp_path / "o" / "model.onnx").tensors) > 1e9
