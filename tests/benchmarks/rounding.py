"""How far float arithmetic moves logits: torch and onnxruntime in one dtype against float64 on the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity.sides import OnnxSide, Side, TorchSide
from vocabsurgeon.onnx.runtime_types import runs
from vocabsurgeon.onnx.tasks import TEXT_GENERATION

Array = np.ndarray[Any, Any]
INPUTS = ("input_ids", "attention_mask", "position_ids")
ANYTHING = 1e9
"""A tolerance that no export misses: what it is for is measured here."""


@dataclass(frozen=True)
class Rounding:
    """Largest differences of logits, each ÷ the largest logit of the reference. None: does not run."""

    torch: float
    """torch in the dtype against the reference."""
    runtime: float | None
    """onnxruntime against the reference."""
    apart: float | None
    """onnxruntime against torch in the dtype: what parity compares."""


def measure(checkpoint: Path, dtype: str, work: Path, tokens: int = 40) -> Rounding:
    """Run random prompts of `tokens` tokens through the checkpoint in `dtype`; the reference has the weights of `dtype`
    and computes in float64."""
    source = Checkpoint.open(checkpoint)
    model = load_model(source, TEXT_GENERATION, dtype)
    rows = int(model.get_input_embeddings().weight.shape[0])
    ids = np.random.default_rng(7).integers(0, rows, (2, tokens))
    found = _logits(TorchSide(model, INPUTS, "logits", caches=False), ids)
    reference = _logits(TorchSide(model.double(), INPUTS, "logits", caches=False), ids)
    scale = float(np.abs(reference).max())
    torch = float(np.abs(found - reference).max()) / scale
    if not runs(dtype):
        return Rounding(torch, None, None)
    report = export(checkpoint, work, ExportOptions(dtype=dtype, cache=False, atol=ANYTHING))
    assert report.out is not None, report.notes
    exported = _logits(OnnxSide(work / "model.onnx"), ids)
    runtime, apart = (float(np.abs(exported - other).max()) / scale for other in (reference, found))
    return Rounding(torch, runtime, apart)


def _logits(side: Side, ids: Array) -> Array:
    positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape).copy()
    logits, _ = side.run(ids, np.ones_like(ids), positions, None)
    return logits
