"""`check_parity`: an export in onnxruntime against its checkpoint in torch, on what a model is used for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.bisect import FirstDifference, Unfound, locate
from vocabsurgeon.onnx.expected import export_element
from vocabsurgeon.onnx.files import OnnxFile, read_onnx
from vocabsurgeon.onnx.horizons import BEYOND, horizons, most_tokens, too_long
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity_crossed import compare_crossed
from vocabsurgeon.onnx.parity_report import ParityReport
from vocabsurgeon.onnx.parts import DECODER, ENCODER
from vocabsurgeon.onnx.prompts import LONGEST, prompts
from vocabsurgeon.onnx.runtime_types import TYPES
from vocabsurgeon.onnx.scenarios import (
    BATCH,
    STEPS,
    Pair,
    compare_full,
    compare_greedy,
    compare_long,
    compare_padded,
    fits_one_call,
)
from vocabsurgeon.onnx.sides import OnnxCrossSide, OnnxSide, TorchCrossSide, TorchSide
from vocabsurgeon.onnx.signature import (
    FEATURES as SOUND,
)
from vocabsurgeon.onnx.signature import (
    HIDDEN,
    IDS,
    LOGITS,
    MASK,
    POSITIONS,
    STATES,
    STATES_MASK,
    past_names,
)
from vocabsurgeon.onnx.signature import (
    TYPES as SEGMENTS,
)
from vocabsurgeon.onnx.tally import Tally
from vocabsurgeon.onnx.tasks import AUTO, FEATURES, TEXT_GENERATION, Task, choose_task
from vocabsurgeon.onnx.tolerances import tolerance_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ONE = {IDS, MASK, POSITIONS, SEGMENTS}
_ENCODER = {IDS, MASK, SOUND}
_DECODER = {IDS, STATES, STATES_MASK}
_SHORT = 12
"""Tokens of the prompt that a failure is traced with."""


def why_not(graphs: Sequence[OnnxFile]) -> str | None:
    """Why `check_parity` cannot run these graphs, None where it can."""
    files = {graph.path.name: graph for graph in graphs}
    if len(graphs) == 1:
        return _why_not(graphs[0], _ONE, (LOGITS, HIDDEN))
    if set(files) != {ENCODER, DECODER}:
        return f"there are {len(graphs)} graphs; one is compared, or {ENCODER} with {DECODER}"
    return _why_not(files[ENCODER], _ENCODER, (HIDDEN,)) or _why_not(files[DECODER], _DECODER, (LOGITS,))


def _why_not(graph: OnnxFile, known: set[str], outputs: tuple[str, ...]) -> str | None:
    unknown = set(graph.inputs) - known - set(past_names(graph.inputs))
    if unknown:
        return f"the graph takes {', '.join(sorted(unknown))}, which is not known"
    if not set(outputs) & set(graph.outputs) or not {IDS, SOUND} & set(graph.inputs):
        return f"the graph does not take {IDS} and give {' or '.join(outputs)}"
    return None


def check_parity(
    graphs: Path | Sequence[Path],
    source: Checkpoint,
    atol: float | None = None,
    rtol: float | None = None,
    progress: Progress = silent,
    *,
    model: PreTrainedModel | None = None,
) -> ParityReport:
    """Compare what `graphs` (one, or an encoder's and a decoder's) and the model give, on prompts of many scripts:
    whole, padded on either side, one token, and greedy decoding where they decode.

    `model` is the checkpoint in the graph's dtype where it is loaded already. Padded positions are left out: what a
    softmax over nothing gives differs by runtime. Greedy decoding takes the model's choice at each step on both sides,
    so every step counts. A context longer than a sliding window, or than the original context of a stretched one, is
    added where the model has it. Memory grows with the longest prompt, not with their number. Raises `OnnxError` where
    either side cannot be loaded.
    """
    files = {path.name: path for path in ([graphs] if isinstance(graphs, Path) else graphs)}
    tally, dtype = Tally(), _dtype_of(list(files.values()))
    if len(files) > 1:
        crossed = OnnxCrossSide(files[ENCODER], files[DECODER])
        model = load_model(source, choose_task(source, AUTO), dtype) if model is None else model
        states = Tally(choices=False)
        cross = Pair(TorchCrossSide(model, crossed.caches), crossed, tally, progress)
        skipped = compare_crossed(cross, states, model, source)
        tolerance = tolerance_for(dtype, atol, rtol)
        return tally.report(dtype, tolerance, skipped, states.report(dtype, tolerance))
    export = OnnxSide(next(iter(files.values())))
    task = _task_of(source, export)
    model = load_model(source, task, dtype) if model is None else model
    tally = Tally(choices=export.output == LOGITS)
    torch_side = TorchSide(model, export.inputs, export.output, export.caches)
    skipped = _compare(Pair(torch_side, export, tally, progress), model, source, task)
    report = tally.report(dtype, tolerance_for(dtype, atol, rtol), skipped)
    return report if report.passed else replace(report, first_difference=_where(model, files, source))


def _where(model: PreTrainedModel, files: Mapping[str, Path], source: Checkpoint) -> FirstDifference | Unfound:
    """Where a failure starts, by a short prompt of ids from all over the table."""
    embedding: Any = model.get_input_embeddings()
    ids = prompts(source, int(embedding.weight.shape[0]), _SHORT)["random 0"]
    (graph,) = files.values()
    return locate(model, graph, ids)


def _task_of(source: Checkpoint, export: OnnxSide) -> Task:
    """What the graph does: its output tells states from logits, the checkpoint's class the rest."""
    task = FEATURES if export.output == HIDDEN else choose_task(source, AUTO)
    if task.output != export.output:
        raise OnnxError(f"the graph gives {export.output}, the checkpoint's class does not", where=source.root)
    return task


def _compare(pair: Pair, model: PreTrainedModel, source: Checkpoint, task: Task) -> tuple[str, ...]:
    embedding: Any = model.get_input_embeddings()
    rows = int(embedding.weight.shape[0])
    limit = most_tokens(model, STEPS + 2)
    chosen = prompts(source, rows, min(LONGEST, limit - STEPS))
    compare_full(pair, chosen)
    highest, *others = chosen.values()
    compare_padded(pair, [highest, *others[: BATCH - 1]])
    if task is TEXT_GENERATION:
        compare_greedy(pair, [highest, *others[1 - BATCH :]])
    return _compare_horizons(pair, model, rows, limit)


def _compare_horizons(pair: Pair, model: PreTrainedModel, rows: int, limit: int) -> tuple[str, ...]:
    """Go beyond every length at which the model changes its ways; return where that was not possible, and why."""
    skipped = []
    for name, length in horizons(model).items():
        if length >= limit - 1:
            continue
        tokens = min(length + BEYOND, limit)
        reason = "it would take too long" if too_long(model, tokens) else None
        ids = np.random.default_rng(1).integers(0, rows, (1, tokens))
        if reason is None and not pair.caches and not fits_one_call(pair, ids):
            reason = "the graph has no cache, and one call would hold too many numbers"
        if reason is None:
            compare_long(pair, f"beyond the {name}", ids)
        else:
            skipped.append(f"no context beyond the {name} of {length} tokens was compared: {reason}")
    return tuple(skipped)


def _dtype_of(graphs: Sequence[Path]) -> str:
    """The graphs' floating type as torch spells it."""
    element = export_element([tensor for graph in graphs for tensor in read_onnx(graph).tensors])
    return next((name for name, onnx_name in TYPES.items() if onnx_name == element.name), "float32")
