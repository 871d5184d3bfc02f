"""`export`: a checkpoint as one or two ONNX graphs over one data file, proved before OUT appears."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vocabsurgeon.checkpoint.account import FileAccount, export_account
from vocabsurgeon.checkpoint.compare import files_equal
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.errors import OnnxError, OutputError, UsageError
from vocabsurgeon.onnx.audit import MAX_RATIO, count
from vocabsurgeon.onnx.cacheless import without_cache
from vocabsurgeon.onnx.data_file import write_models
from vocabsurgeon.onnx.export_report import ExportReport
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity.check import check_parity
from vocabsurgeon.onnx.parts import Parts
from vocabsurgeon.onnx.parts_of import parts_of
from vocabsurgeon.onnx.presets import presets_for, write_presets
from vocabsurgeon.onnx.rewrite import computed_bytes, rewrite
from vocabsurgeon.onnx.runtime_types import DTypeChoice, choose_dtype
from vocabsurgeon.onnx.stored import open_stored
from vocabsurgeon.onnx.tasks import Task, choose_task
from vocabsurgeon.onnx.tracing.trace import WRAPPED, trace

if TYPE_CHECKING:
    import onnx_ir
    from transformers import PreTrainedModel

OPSETS = range(17, 24)


@dataclass(frozen=True)
class ExportOptions:
    """`dtype`: auto, float32, float16 or bfloat16. `task`: auto or one of `tasks.TASKS`. `cache`: with past
    keys and values where the model keeps some.
    `opset`: None is torch's default. `atol`, `rtol`: tolerance of the logits, None is the dtype's. `max_ratio`: most
    bytes that may be stored for one that is needed. `dry_run`: export and check, and leave nothing.
    `trust_remote_code`: let the checkpoint's own code run.
    """

    dtype: str = "auto"
    task: str = "auto"
    cache: bool = True
    opset: int | None = None
    atol: float | None = None
    rtol: float | None = None
    max_ratio: float = MAX_RATIO
    dry_run: bool = False
    overwrite: bool = False
    trust_remote_code: bool = False


def export(
    checkpoint: Checkpoint | Path | str,
    out: Path | str,
    options: ExportOptions = ExportOptions(),
    progress: Progress = silent,
) -> ExportReport:
    """Export the model at `checkpoint` to the folder `out`, and prove it.

    The graphs, the data file and every file of the checkpoint that is no weights are staged; bytes and logits are
    checked on the staged folder; only where both pass does it become OUT. A report with `passed` False has the
    evidence, and no OUT. The source is only read. Raises `VocabsurgeonError` where the model cannot be loaded or
    exported, where a dtype asked for does not run, or OUT cannot be written.
    """
    source = Checkpoint.open(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    _check_opset(options.opset)
    place = StagedDirectory(out, overwrite=options.overwrite, source=source.root)
    task = choose_task(source, options.task)
    dtype = choose_dtype(source, options.dtype)
    _import_torch()
    with place as staged:
        progress("load", 0, 1)
        model = load_model(source, task, dtype.exported, options.trust_remote_code)
        attempt = _Attempt(staged, source, task, dtype, options, progress)
        return _finish(attempt(model, options.cache), staged)


@dataclass(frozen=True)
class _Attempt:
    """One way to export a loaded model into the staged folder, over whatever another left there."""

    staged: StagedDirectory
    source: Checkpoint
    task: Task
    dtype: DTypeChoice
    options: ExportOptions
    progress: Progress

    def __call__(self, model: PreTrainedModel, cache: bool) -> ExportReport:
        """The export with a cache where it can be made and holds, else the one without: some classes cannot be traced
        with one, some compute something else in a cached step than on the whole text. Where neither holds, the first
        one's evidence."""
        exported = parts_of(model, self.task, cache)
        try:
            report = self._made(model, exported)
        except OnnxError as error:
            if not exported.caches:
                raise
            return _noted(self(model, cache=False), error.message)
        if report.parity.passed or not exported.caches:
            return report
        bare = self(model, cache=False)
        return _noted(bare, "; ".join(report.parity.reasons)) if bare.parity.passed else report

    def _made(self, model: PreTrainedModel, exported: Parts) -> ExportReport:
        options, folder, progress = self.options, self.staged.path, self.progress
        for left in folder.iterdir():  # never written over: a session may have mapped it
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        graphs = _trace_all(model, exported, options.opset, progress)
        _rewrite(model, exported, graphs, progress)
        computed = computed_bytes(graphs.values(), _stored(model, self.source))  # shared tensors are still one object
        opset = int(next(iter(graphs.values())).opset_imports[""])
        write_models(graphs, folder, progress)
        stored = open_stored(folder)
        write_presets(folder, presets_for(stored.graphs))
        files = export_account(self.source, {path.name for path in folder.iterdir()})
        _carry(self.source, folder, files)
        counted = count(stored, self.source, options.max_ratio, progress)
        graphs_written = [folder / part.file for part in exported.parts]
        parity = check_parity(
            graphs_written, self.source, options.atol, options.rtol, progress, model=model, task=self.task
        )
        return ExportReport(
            out=self.staged.out,
            source=self.source,
            task=self.task,
            dtype=self.dtype,
            opset=opset,
            exported=exported,
            computed=computed,
            widened=_widened(model, self.dtype.exported),
            audit=counted,
            parity=parity,
            files=files,
            dry_run=options.dry_run,
        )


def _noted(bare: ExportReport, why: str) -> ExportReport:
    """An export without a cache, and what was wrong with one."""
    notes = (*bare.exported.notes, without_cache(why))
    return replace(bare, exported=replace(bare.exported, notes=notes))


def _finish(report: ExportReport, staged: StagedDirectory) -> ExportReport:
    """Commit a report that passed; one that did not, and a rehearsal, keeps its evidence and loses its OUT."""
    from vocabsurgeon.checkpoint.fingerprint import fingerprint
    from vocabsurgeon.checkpoint.record import write_record

    if not report.passed or report.dry_run:
        return replace(report, out=None)
    write_record(staged.path, report.to_dict(), fingerprint(report.source))
    staged.commit()
    return report


def _trace_all(
    model: PreTrainedModel, exported: Parts, opset: int | None, progress: Progress
) -> dict[str, onnx_ir.Model]:
    graphs = {}
    for done, part in enumerate(exported.parts):
        progress(f"trace {part.file}", done, len(exported.parts))
        graphs[part.file] = trace(model, part, opset)
    return graphs


def _rewrite(model: PreTrainedModel, exported: Parts, graphs: dict[str, onnx_ir.Model], progress: Progress) -> None:
    """Make the traced graphs what is written, in place."""
    progress("rewrite", 0, 1)
    rewrite(
        [(graphs[part.file], part.signature) for part in exported.parts],
        [f"{WRAPPED}.{name}" for name, _ in model.named_parameters(remove_duplicate=False)],
        f"{WRAPPED}.",
    )


def _stored(model: PreTrainedModel, source: Checkpoint) -> frozenset[str]:
    """Names of the model's tensors, but for those that its class never saves and these files do not hold either."""
    unsaved = set(model._keys_to_ignore_on_save or ()) - set(source.tensors)
    return frozenset(model.state_dict()) - unsaved


def _widened(model: PreTrainedModel, dtype: str) -> int:
    """Bytes that parameters take beyond those of `dtype`: some classes keep a few in float32."""
    import torch

    width = getattr(torch, dtype).itemsize
    parameters = [parameter for parameter in model.parameters() if parameter.is_floating_point()]
    return sum(parameter.numel() * max(0, parameter.dtype.itemsize - width) for parameter in parameters)


def _import_torch() -> None:
    """Before anything is staged: a signal that comes while its libraries load may end the process on the spot."""
    importlib.import_module("torch")


def _check_opset(opset: int | None) -> None:
    if opset is not None and opset not in OPSETS:
        raise UsageError(f"opset {opset} cannot be exported", hint=f"use {OPSETS.start} to {OPSETS.stop - 1}")


def _carry(source: Checkpoint, folder: Path, files: Iterable[FileAccount]) -> None:
    """Every file that the account keeps, byte for byte: how to tokenize, how to generate, what nobody knows."""
    for entry in files:
        if entry.fate in ("kept", "stale"):
            (folder / entry.file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path(entry.file), folder / entry.file)
            if not files_equal(source.path(entry.file), folder / entry.file):
                raise OutputError("is not what was copied", where=entry.file, hint="check the disk")
