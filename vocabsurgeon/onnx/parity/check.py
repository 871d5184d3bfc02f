"""`check_parity`: an export in onnxruntime against its checkpoint in torch, on what a model is used for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.attention import EAGER, attention_of, eager
from vocabsurgeon.onnx.expected import export_element
from vocabsurgeon.onnx.files import OnnxFile, read_onnx
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity.bisect import Unfound
from vocabsurgeon.onnx.parity.crossed import compare_crossed
from vocabsurgeon.onnx.parity.crossed_sides import OnnxCrossSide, TorchCrossSide
from vocabsurgeon.onnx.parity.locate import locate
from vocabsurgeon.onnx.parity.own_ways import padding_alone, with_eager
from vocabsurgeon.onnx.parity.pair import OtherShape, Pair
from vocabsurgeon.onnx.parity.report import ParityReport
from vocabsurgeon.onnx.parity.sides import OnnxSide, TorchSide
from vocabsurgeon.onnx.parity.single import compare_single
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.parity.tolerances import Tolerance, tolerance_for
from vocabsurgeon.onnx.parts import DECODER, ENCODER
from vocabsurgeon.onnx.runtime_types import TYPES
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
from vocabsurgeon.onnx.tasks import AUTO, CROSSED, FEATURES, TEXT_GENERATION, Task, choose_task

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ONE = {IDS, MASK, POSITIONS, SEGMENTS}
_ENCODER = {IDS, MASK, SOUND}
_DECODER = {IDS, STATES, STATES_MASK}


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
    task: Task | None = None,
) -> ParityReport:
    """Compare what `graphs` (one, or an encoder's and a decoder's) and the model give, on prompts of many scripts:
    whole, padded on either side, one token, and greedy decoding where they decode.

    `model` is the checkpoint in the graph's dtype where it is loaded already, `task` what it was exported for. Padded
    positions are left out: what a softmax over nothing gives differs by runtime. Greedy decoding takes the model's
    choice at each step on both sides, so every step counts. A context longer than a sliding window, or than the
    original context of a stretched one, is added where the model has it. Where padded batches alone fail, the model is
    compared once more with eager attention, which is what was traced. A failure is taken apart by layers. Memory grows
    with the longest prompt, not with their number. Raises `OnnxError` where either side cannot be loaded, or does not
    run on what the other takes.
    """
    files = {path.name: path for path in ([graphs] if isinstance(graphs, Path) else graphs)}
    dtype = _dtype_of(list(files.values()))
    tolerance, inner = tolerance_for(dtype, atol, rtol), tolerance_for(dtype, rtol=rtol)
    if len(files) > 1:
        model = load_model(source, _crossed_task_of(source), dtype) if model is None else model
        return _with_place(_crossed(files, model, source, dtype, tolerance, progress), inner)
    export = OnnxSide(next(iter(files.values())))
    task = _task_of(source, export) if task is None else task
    model = load_model(source, task, dtype) if model is None else model
    compare = partial(_single, export, model, source, task, dtype, tolerance, progress)
    found = compare()
    if padding_alone(found.report) and attention_of(model) != EAGER:
        with eager(model):
            agreeing = compare().report
        if agreeing.passed:
            return with_eager(agreeing, found.report, attention_of(model))
    return _with_place(found, inner)


@dataclass(frozen=True)
class _Found:
    """A comparison before its failure is taken apart. `tally`: where the difference is that counts."""

    pair: Pair
    tally: Tally
    report: ParityReport


def _single(
    export: OnnxSide,
    model: PreTrainedModel,
    source: Checkpoint,
    task: Task,
    dtype: str,
    tolerance: Tolerance,
    progress: Progress,
) -> _Found:
    torch_side = TorchSide(model, export.inputs, export.output, export.caches)
    pair = Pair(torch_side, export, Tally(choices=export.output == LOGITS), progress)
    skipped = _until_shapes_differ(compare_single, pair, model, source, task)
    return _Found(pair, pair.tally, pair.tally.report(dtype, tolerance, skipped))


def _crossed(
    files: Mapping[str, Path],
    model: PreTrainedModel,
    source: Checkpoint,
    dtype: str,
    tolerance: Tolerance,
    progress: Progress,
) -> _Found:
    export = OnnxCrossSide(files[ENCODER], files[DECODER])
    pair, states = Pair(TorchCrossSide(model, export.caches), export, Tally(), progress), Tally(choices=False)
    skipped = _until_shapes_differ(compare_crossed, pair, states, model, source)
    encoder = states.report(dtype, tolerance)
    report = pair.tally.report(dtype, tolerance, skipped, encoder)
    return _Found(pair, pair.tally if encoder.passed else states, report)


def _until_shapes_differ(compare: Callable[..., tuple[str, ...]], *given: Any) -> tuple[str, ...]:
    """What `compare` could not check, where need be all that comes after an array of another shape."""
    try:
        return compare(*given)
    except OtherShape as stopped:
        return (f"all after {stopped}: there shapes differ",)


def _with_place(found: _Found, tolerance: Tolerance) -> ParityReport:
    """The report; where it did not pass, with where the largest difference in the tally starts."""
    report = found.report
    if report.passed:
        return report
    if found.tally.other_shape is not None:
        return replace(report, first_difference=Unfound("there are no two numbers to compare"))
    found.pair.progress("look for the first difference", 0, 1)
    return replace(report, first_difference=locate(found.pair, found.tally.trail, report.tolerance, tolerance))


def _task_of(source: Checkpoint, export: OnnxSide) -> Task:
    """What the graph does: its output tells states from logits, the checkpoint's class the rest; of an
    encoder–decoder, one graph with logits is the decoder alone."""
    task = FEATURES if export.output == HIDDEN else choose_task(source, AUTO)
    if task.output != export.output:
        raise OnnxError(f"the graph gives {export.output}, the checkpoint's class does not", where=source.root)
    return TEXT_GENERATION if task in CROSSED else task


def _crossed_task_of(source: Checkpoint) -> Task:
    """What an encoder's and a decoder's graph do together."""
    task = choose_task(source, AUTO)
    if task not in CROSSED:
        kind = source.config.architecture or source.config.model_type
        raise OnnxError(f"{kind} is no encoder–decoder, the graphs are one", where=source.root)
    return task


def _dtype_of(graphs: Sequence[Path]) -> str:
    """The graphs' floating type as torch spells it."""
    element = export_element([tensor for graph in graphs for tensor in read_onnx(graph).tensors])
    return next((name for name, onnx_name in TYPES.items() if onnx_name == element.name), "float32")
