"""`export`: a checkpoint's decoder as one ONNX graph over one data file, proved before OUT appears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.errors import UsageError
from vocabsurgeon.onnx.audit import MAX_RATIO, AuditReport, count
from vocabsurgeon.onnx.data_file import MODEL, write_model
from vocabsurgeon.onnx.files import SMALL_CONSTANT
from vocabsurgeon.onnx.load import choose_task, load_model
from vocabsurgeon.onnx.parity import check_parity
from vocabsurgeon.onnx.parity_report import ParityReport
from vocabsurgeon.onnx.passes.constants import inline_constants
from vocabsurgeon.onnx.passes.interface import name_interface, unprefix
from vocabsurgeon.onnx.passes.share_content import share_content
from vocabsurgeon.onnx.passes.simplify import simplify
from vocabsurgeon.onnx.passes.strip import strip
from vocabsurgeon.onnx.passes.weight_layout import lay_out_weights
from vocabsurgeon.onnx.passes.widen_bfloat16 import widen_bfloat16
from vocabsurgeon.onnx.runtime_types import DTypeChoice, choose_dtype
from vocabsurgeon.onnx.signature import POSITIONS, Signature
from vocabsurgeon.onnx.stored import open_stored
from vocabsurgeon.onnx.tracing import WRAPPED, accepts_positions, signature_of, trace

if TYPE_CHECKING:
    import onnx_ir
    from transformers import PreTrainedModel

SCHEMA = "vocabsurgeon.export/1"
OPSETS = range(17, 24)
_CARRIED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
"""What a user of the graph needs beside it: how to tokenize, how to generate."""


@dataclass(frozen=True)
class ExportOptions:
    """`dtype`: auto, float32, float16 or bfloat16. `task`: auto or text-generation. `cache`: with past keys and values.
    `opset`: None is torch's default. `atol`, `rtol`: tolerance of the logits, None is the dtype's. `max_ratio`: most
    bytes that may be stored for one that is needed. `trust_remote_code`: let the checkpoint's own code run.
    """

    dtype: str = "auto"
    task: str = "auto"
    cache: bool = True
    opset: int | None = None
    atol: float | None = None
    rtol: float | None = None
    max_ratio: float = MAX_RATIO
    overwrite: bool = False
    trust_remote_code: bool = False


@dataclass(frozen=True)
class ExportReport:
    """What was exported and how it measured up. `out` is None where it did not pass, and OUT does not exist then."""

    out: Path | None
    source: Checkpoint
    task: str
    dtype: DTypeChoice
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    inputs_ignored: tuple[str, ...]
    audit: AuditReport
    parity: ParityReport

    @property
    def passed(self) -> bool:
        """Small enough, and the logits agree."""
        return self.audit.small_enough and self.parity.passed

    @property
    def notes(self) -> list[str]:
        """What a user of the graph should know."""
        told = [f"exported in {self.dtype.exported}: {self.dtype.reason}"]
        told += [f"{name} is accepted and ignored: the model does not read it" for name in self.inputs_ignored]
        return [*told, *self.parity.reasons, *self.parity.skipped]

    def to_dict(self) -> dict[str, Any]:
        """The contract's JSON: the audit's keys, and what was exported."""
        config = self.source.config
        return {
            **self.audit.to_dict(),
            "schema": SCHEMA,
            "out": None if self.out is None else str(self.out),
            "model_type": config.model_type,
            "architecture": config.architecture,
            "task": self.task,
            "cache": len(self.outputs) > 1,
            "dtype": self.dtype.to_dict(),
            "opset": self.opset,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "inputs_ignored": list(self.inputs_ignored),
            "parity": self.parity.to_dict(),
            "parity_not_checked": None,
            "passed": self.passed,
            "notes": self.notes,
        }


def export(
    checkpoint: Checkpoint | Path | str,
    out: Path | str,
    options: ExportOptions = ExportOptions(),
    progress: Progress = silent,
) -> ExportReport:
    """Export the decoder at `checkpoint` to the folder `out`, and prove it.

    The graph, the data file, config, generation config and tokenizer files are staged; bytes and logits are checked on
    the staged folder; only where both pass does it become OUT. A report with `passed` False has the evidence, and no
    OUT. The source is only read. Raises `VocabsurgeonError` where the model cannot be loaded or exported, where a dtype
    asked for does not run, or OUT cannot be written.
    """
    source = Checkpoint.open(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    _check_opset(options.opset)
    with StagedDirectory(out, overwrite=options.overwrite, source=source.root) as staged:
        task = choose_task(source, options.task)
        dtype = choose_dtype(source, options.dtype)
        progress("load", 0, 1)
        model = load_model(source, dtype.exported, options.trust_remote_code)
        signature = signature_of(model, options.cache)
        opset = _write(model, signature, options.opset, staged.path, progress)
        _carry(source, staged.path)
        counted = count(open_stored(staged.path), source, options.max_ratio, progress)
        parity = check_parity(staged.path / MODEL, source, options.atol, options.rtol, progress, model=model)
        report = ExportReport(
            staged.out,
            source,
            task,
            dtype,
            opset,
            tuple(signature.inputs()),
            tuple(signature.outputs()),
            () if accepts_positions(model) else (POSITIONS,),
            counted,
            parity,
        )
        return _finish(report, staged)


def _finish(report: ExportReport, staged: StagedDirectory) -> ExportReport:
    """Commit a report that passed; one that did not keeps its evidence and loses its OUT."""
    from dataclasses import replace

    from vocabsurgeon.checkpoint.fingerprint import fingerprint
    from vocabsurgeon.checkpoint.record import write_record

    if not report.passed:
        return replace(report, out=None)
    write_record(staged.path, report.to_dict(), fingerprint(report.source))
    staged.commit()
    return report


def _write(model: PreTrainedModel, signature: Signature, opset: int | None, folder: Path, progress: Progress) -> int:
    """Trace, rewrite and write the graph below `folder`; return the opset it has."""
    progress("trace", 0, 1)
    graph = trace(model, signature, opset)
    progress("rewrite", 0, 1)
    rewrite(graph, [f"{WRAPPED}.{name}" for name, _ in model.named_parameters(remove_duplicate=False)], signature)
    write_model(graph, folder, progress)
    return int(graph.opset_imports[""])


def rewrite(graph: onnx_ir.Model, parameters: Sequence[str], signature: Signature) -> None:
    """Every pass over a traced graph, in order, in place. `parameters`: the initializers that are the model's own."""
    simplify(graph, parameters)
    widen_bfloat16(graph)
    share_content(graph)
    lay_out_weights(graph)
    inline_constants(graph, frozenset(parameters), SMALL_CONSTANT)
    strip(graph)
    unprefix(graph, f"{WRAPPED}.")
    name_interface(graph, signature.inputs(), signature.outputs())


def _check_opset(opset: int | None) -> None:
    if opset is not None and opset not in OPSETS:
        raise UsageError(f"opset {opset} cannot be exported", hint=f"use {OPSETS.start} to {OPSETS.stop - 1}")


def _carry(source: Checkpoint, folder: Path) -> None:
    for name in _CARRIED:
        if source.has(name):
            (folder / name).write_bytes(source.read_bytes(name))
