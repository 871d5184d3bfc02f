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
from vocabsurgeon.onnx.scenarios import STEPS, Pair, compare_full, compare_greedy, compare_long, compare_padded
from vocabsurgeon.onnx.sides import OnnxSide, TorchSide
from vocabsurgeon.onnx.signature import IDS, LOGITS, MASK, POSITIONS, past_names
from vocabsurgeon.onnx.tally import Tally
from vocabsurgeon.onnx.tolerances import tolerance_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LONG_BUDGET = 2e12
"""Parameters × tokens that a context beyond the sliding window may cost: some minutes on two cores."""


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
    so every step counts. A context longer than a sliding window is added where the model has one. Memory grows with
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
    compare_padded(pair, list(chosen.values()))
    compare_greedy(pair, list(chosen.values()))
    skipped = _compare_window(pair, model, rows, limit)
    return tally.report(dtype, tolerance_for(dtype, atol, rtol), skipped)


def _compare_window(pair: Pair, model: PreTrainedModel, rows: int, limit: int) -> tuple[str, ...]:
    """Go beyond the model's sliding window; return why not, where it has one and that would cost too much."""
    window = _window(model)
    if window is None or window >= limit - 1:
        return ()
    if not pair.caches:
        return (f"no context longer than the sliding window of {window} was compared: the graph has no cache",)
    length = min(window + 24, limit)
    if sum(parameter.numel() for parameter in model.parameters()) * length > LONG_BUDGET:
        return (f"no context longer than the sliding window of {window} was compared: it would take too long",)
    compare_long(pair, np.random.default_rng(1).integers(0, rows, (1, length)))
    return ()


def _window(model: PreTrainedModel) -> int | None:
    config: Any = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    return window if isinstance(window, int) and getattr(config, "use_sliding_window", True) else None


def _most_tokens(model: PreTrainedModel) -> int:
    """How long a context may get."""
    stated = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return max(STEPS + 2, stated) if isinstance(stated, int) else 4096


def _dtype_of(graph: Path) -> str:
    """The graph's floating type as torch spells it."""
    element = export_element(read_onnx(graph).tensors)
    return next((name for name, onnx_name in TYPES.items() if onnx_name == element.name), "float32")
