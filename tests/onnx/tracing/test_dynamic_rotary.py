"""Rotary embeddings that follow the length: the model's logits, within the trained length and beyond."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from tests.models.tiny import build
from vocabsurgeon.onnx.export import export

TRAINED = 32


def test_frequencies_follow_the_length(tmp_path: Path) -> None:
    import torch
    import transformers

    rotary = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    source = build("llama", tmp_path / "c", max_position_embeddings=TRAINED, rope_parameters=rotary)
    report = export(source, tmp_path / "o")
    assert report.passed, report.notes
    session = onnxruntime.InferenceSession(tmp_path / "o" / "model.onnx")
    empty = {
        entry.name: np.zeros((2, entry.shape[1], 0, entry.shape[3]), np.float32)
        for entry in session.get_inputs()
        if "past" in entry.name
    }
    for length in (TRAINED - 1, TRAINED, TRAINED + 1, 3 * TRAINED):
        ids = np.random.default_rng(length).integers(0, 60, (2, length))
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        feed["position_ids"] = np.arange(length)[None].repeat(2, 0)
        found = session.run(["logits"], feed | empty)[0]
        model = transformers.AutoModelForCausalLM.from_pretrained(source).eval()  # one that has seen nothing longer
        with torch.no_grad():
            expected = model(torch.from_numpy(ids)).logits.numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * (1 + np.abs(expected).max()))
