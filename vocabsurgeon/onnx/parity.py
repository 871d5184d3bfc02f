"""`check_parity`: an exported decoder in onnxruntime against its checkpoint in torch, on what a decoder is used for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.expected import export_element
from vocabsurgeon.onnx.files import OnnxFile, read_onnx
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity_report import ParityReport
from vocabsurgeon.onnx.prompts import LONGEST, prompts
from vocabsurgeon.onnx.runtime_types import TYPES
from vocabsurgeon.onnx.scenarios import BATCH, STEPS, Pair, compare_full, compare_greedy, compare_long, compare_padded
from vocabsurgeon.onnx.sides import OnnxSide, TorchSide
from vocabsurgeon.onnx.signature import IDS, LOGITS, MASK, POSITIONS, past_names
from vocabsurgeon.onnx.tally import Tally
from vocabsurgeon.onnx.tolerances import tolerance_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LONG_BUDGET = 2e12
"""Parameters × tokens that a context beyond the sliding window may cost: some minutes on two cores."""
_BEYOND = 24
"""How many tokens such a context goes on."""


def why_not(graphs: Sequence[OnnxFile]) -> str | None:
    """Why `check_parity` cannot run these graphs, None where it can."""
    if len(graphs) != 1:
        return f"there are {len(graphs)} graphs, only a single decoder graph is compared"
    (graph,) = graphs
    unknown = set(graph.inputs) - {IDS, MASK, POSITIONS, *past_names(graph.inputs)}
    if IDS not in graph.inputs or LOGITS not in graph.outputs:
        return f"the graph does not take {IDS} and give {LOGITS}"
    return f"the graph takes {', '.join(sorted(unknown))}, which is not known" if unknown else None


def check_parity(
    graph: Path,
    source: Checkpoint,
    atol: float | None = None,
    rtol: float | None = None,
    progress: Progress = silent,
    *,
    model: PreTrainedModel | None = None,
) -> ParityReport:
    """Compare logits on prompts of many scripts: whole, padded on either side, one token, and greedy decoding.

    `model` is the checkpoint in the graph's dtype where it is loaded already. Padded positions are left out: what a
    softmax over nothing gives differs by runtime. Greedy decoding takes the model's choice at each step on both sides,
    so every step counts. A context longer than a sliding window, or than the original context of a stretched one, is
    added where the model has it. Memory grows with
    the longest prompt, not with their number. Raises `OnnxError` where either side cannot be loaded.
    """
    tally = Tally()
    dtype = _dtype_of(graph)
    model = load_model(source, dtype) if model is None else model
    export = OnnxSide(graph)
    pair = Pair(TorchSide(model, export.caches), export, tally, progress)
    embedding: Any = model.get_input_embeddings()
    rows = int(embedding.weight.shape[0])
    limit = _most_tokens(model)
    chosen = prompts(source, rows, min(LONGEST, limit - STEPS))
    compare_full(pair, chosen)
    highest, *others = chosen.values()
    compare_padded(pair, [highest, *others[: BATCH - 1]])
    compare_greedy(pair, [highest, *others[1 - BATCH :]])
    skipped = _compare_horizons(pair, model, rows, limit)
    return tally.report(dtype, tolerance_for(dtype, atol, rtol), skipped)


def _compare_horizons(pair: Pair, model: PreTrainedModel, rows: int, limit: int) -> tuple[str, ...]:
    """Go beyond every length at which the model changes its ways; return where that was not possible, and why."""
    size = sum(parameter.numel() for parameter in model.parameters())
    skipped = []
    for name, length in _horizons(model).items():
        if length >= limit - 1:
            continue
        tokens = min(length + _BEYOND, limit)
        reason = None if pair.caches else "the graph has no cache"
        if size * tokens > LONG_BUDGET:
            reason = "it would take too long"
        if reason is None:
            compare_long(pair, f"beyond the {name}", np.random.default_rng(1).integers(0, rows, (1, tokens)))
        else:
            skipped.append(f"no context beyond the {name} of {length} tokens was compared: {reason}")
    return tuple(skipped)


def _horizons(model: PreTrainedModel) -> dict[str, int]:
    """Name → tokens after which attention or positions follow another rule."""
    config: Any = model.config.get_text_config()
    found = {}
    window = getattr(config, "sliding_window", None)
    if isinstance(window, int) and getattr(config, "use_sliding_window", True):
        found["window"] = window
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
        found["original context"] = int(rope["original_max_position_embeddings"])
    return found


def _most_tokens(model: PreTrainedModel) -> int:
    """How long a context may get."""
    stated = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return max(STEPS + 2, stated) if isinstance(stated, int) else 4096


def _dtype_of(graph: Path) -> str:
    """The graph's floating type as torch spells it."""
    element = export_element(read_onnx(graph).tensors)
    return next((name for name, onnx_name in TYPES.items() if onnx_name == element.name), "float32")
