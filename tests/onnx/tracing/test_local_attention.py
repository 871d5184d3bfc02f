"""Longformer and LED inside `local_attention`: the models' own states at every length, full windows and filled ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest

from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.tracing.local_attention import local_attention

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

WINDOW = 4
LENGTHS = (1, 3, 4, 5, 8, 11, 12, 64)


def led() -> PreTrainedModel:
    import transformers

    width = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 64}
    lengths = {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}
    config = transformers.LEDConfig(attention_window=[WINDOW], **width, **heads, **lengths)
    return transformers.LEDForConditionalGeneration(config).eval()


def longformer() -> PreTrainedModel:
    import transformers

    width = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.LongformerConfig(
        vocab_size=64, attention_window=[WINDOW], max_position_embeddings=66, pad_token_id=1, **width
    )
    return transformers.LongformerForMaskedLM(config).eval()


def text(length: int) -> dict[str, torch.Tensor]:
    """Two random rows, the second padded on the right where it is long enough."""
    import torch

    ids = torch.randint(3, 60, (2, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones_like(ids)
    mask[1, 3:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def states(encoder: Any, feed: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
    import torch

    with torch.no_grad():
        found: np.ndarray[Any, Any] = encoder(**feed).last_hidden_state.numpy()
    return found


@pytest.mark.parametrize("build", [led, longformer])
def test_a_model_inside_the_block_gives_its_own_states(build: Any) -> None:
    encoder: Any = build().base_model
    encoder = encoder.get_encoder() if build is led else encoder
    before = encoder.forward
    for length in LENGTHS:
        feed = text(length)
        expected = states(encoder, feed)
        with local_attention(encoder):
            assert encoder.forward != before
            found = states(encoder, feed)
        assert encoder.forward == before
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_led_is_exported_for_full_windows_and_filled_ones(tmp_path: Path) -> None:
    model = led()
    model.save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o", ExportOptions(max_ratio=2))
    assert report.passed, report.notes
    session = onnxruntime.InferenceSession(tmp_path / "o" / "encoder_model.onnx")
    for length in LENGTHS:
        feed = text(length)
        (found,) = session.run(None, {name: tensor.numpy() for name, tensor in feed.items()})
        np.testing.assert_allclose(found, states(model.get_encoder(), feed), rtol=0, atol=1e-5)
