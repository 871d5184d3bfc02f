"""One tiny model through one exporter: ours, or `transformers.exporters` alone. Passing is loading in onnxruntime and
giving the model's own numbers for another batch and length than were traced, a cached step included where one is
exported."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOLERANCE = 1e-3
"""Of the largest number: what passes there need not be as near as what passes here."""


def ours(model: PreTrainedModel, folder: Path) -> str:
    """Export and parity of this package; returns `cache`, or `no cache` and why; raises with the reason."""
    from vocabsurgeon.onnx.export import ExportOptions, export

    model.save_pretrained(folder / "checkpoint")
    report = export(folder / "checkpoint", folder / "onnx", ExportOptions(max_ratio=1e9))
    if not report.passed:
        raise AssertionError("; ".join(report.parity.reasons))
    reasons = [note.removeprefix("exported without a cache: ") for note in report.exported.notes]
    return "cache" if report.exported.caches else ": ".join(["no cache", *reasons])


def theirs(model: PreTrainedModel, folder: Path) -> str:
    """Export with dynamic shapes by `transformers.exporters`, run on other shapes; returns the component names."""
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter
    from transformers.exporters.utils import decompose_for_generation

    settings = OnnxConfig(dynamic=True)
    if not model.can_generate():
        exported = OnnxExporter().export(model, _prompt(model, 2, 6), settings)
        _same(model, exported.runners["model"], _prompt(model, 3, 9))
        return "model"
    _let_it_generate(model)
    exported = OnnxExporter().export_for_generation(model, _prompt(model, 2, 6), settings)
    for name, (part, inputs) in decompose_for_generation(model, _prompt(model, 3, 9)).items():
        _same(part, exported.runners[name], inputs)
    return " ".join(exported.components)


def _let_it_generate(model: PreTrainedModel) -> None:
    """What a tiny config does not state: where decoding starts; and that it does not stop at once."""
    config = model.generation_config
    config.eos_token_id = None
    for name, value in {"decoder_start_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}.items():
        if getattr(config, name, None) is None:
            setattr(config, name, value)


def _prompt(model: PreTrainedModel, batch: int, length: int) -> dict[str, Any]:
    import torch

    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, :2] = 0
    ids = torch.randint(5, 60, (batch, length), generator=torch.Generator().manual_seed(batch))
    return {"input_ids": ids, "attention_mask": mask}


def _same(module: Any, runner: Any, inputs: dict[str, Any]) -> None:
    """Raises where the attended numbers of the first tensor that both give differ."""
    import torch

    with torch.no_grad():
        expected = _first(module(**copy.deepcopy(inputs)))
    found = _first(runner(**copy.deepcopy(inputs)))
    mask = inputs.get("attention_mask")
    if mask is not None and mask.shape == expected.shape[:2]:
        expected, found = expected[mask.bool()], found[mask.bool()]
    if expected.shape != found.shape:
        raise AssertionError(f"shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
    gap = float((expected - found).abs().max())
    if not gap <= TOLERANCE * float(expected.abs().max()):
        raise AssertionError(f"differs by {gap:.3g}")


def _first(output: Any) -> Any:
    for name in ("logits", "prediction_logits", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            return getattr(output, name).float()
    raise AssertionError("neither logits nor states are given")


EXPORTERS = {"ours": ours, "theirs": theirs}
