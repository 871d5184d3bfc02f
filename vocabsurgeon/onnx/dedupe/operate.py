"""`dedupe`: an export rewritten so that each content is stored once, checked in onnxruntime before OUT appears."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.record import write_record
from vocabsurgeon.checkpoint.staging import StagedDirectory
from vocabsurgeon.errors import UsageError
from vocabsurgeon.onnx.audit import count
from vocabsurgeon.onnx.byte_counts import ByteCounts
from vocabsurgeon.onnx.dedupe.contents import Contents, contents_of
from vocabsurgeon.onnx.dedupe.data import lay_out, point, write_data
from vocabsurgeon.onnx.dedupe.export_folder import STRAY, ExportFolder, open_export
from vocabsurgeon.onnx.dedupe.lookups import rows_looked_up
from vocabsurgeon.onnx.dedupe.merge import Merger, referring, renumber
from vocabsurgeon.onnx.dedupe.options import DedupeOptions
from vocabsurgeon.onnx.dedupe.products import TARGETS
from vocabsurgeon.onnx.dedupe.proof import parity_of, weights_intact
from vocabsurgeon.onnx.dedupe.report import DedupeReport, Merged
from vocabsurgeon.onnx.dedupe.slim import slim_model
from vocabsurgeon.onnx.duplicates import Duplicate
from vocabsurgeon.onnx.files import SMALL_CONSTANT
from vocabsurgeon.onnx.presets import presets_for, write_presets
from vocabsurgeon.onnx.stored import open_stored
from vocabsurgeon.onnx.tensors import StoredTensor

if TYPE_CHECKING:
    import onnx

_NO_LIMIT = float("inf")


@dataclass(frozen=True)
class Rewritten:
    """The new graphs, by number in the export, and what the data file of each of their folders holds."""

    models: tuple[onnx.ModelProto, ...]
    rows: tuple[dict[str, int], ...]
    """Of each graph as it was: input → rows of the table it looks up."""
    data: dict[Path, list[StoredTensor]]
    merger: Merger


def dedupe(
    path: Path | str,
    out: Path | str,
    options: DedupeOptions = DedupeOptions(),
    progress: Progress = silent,
) -> DedupeReport:
    """Rewrite the export at `path` (a folder of graphs, or one `.onnx` file) to the folder `out`.

    Equal tensors become one, across graphs too; a transposed copy becomes a use of the table itself; the tensors of a
    folder's graphs lie in one data file without orphans. What is left alone: contents under a kilobyte, quantized or
    rounded copies, initializers that are graph inputs too. Where there is nothing to gain every file is copied as it
    is. Memory does not grow with the weights. A report with `passed` False has the evidence, and no OUT. Raises
    `VocabsurgeonError` where the export cannot be read or OUT cannot be written.
    """
    if options.target not in TARGETS:
        raise UsageError(f"unknown target {options.target!r}", hint=f"use one of: {', '.join(TARGETS)}")
    source = open_export(Path(path), out)
    before = count(source.stored, None, _NO_LIMIT, progress)
    worth = _worthwhile(before.duplicates)
    report = DedupeReport(
        Path(path), None, options.target, options.dry_run, False, before.files, before.bytes, before.bytes, ()
    )
    rewritten = _rewrite(source, worth, options.target)
    merged = [Merged(entry, forms) for entry in worth if (forms := _forms(entry, rewritten.merger))]
    gone = [entry.duplicate for entry in merged]
    report = replace(report, kept=tuple(entry for entry in worth if entry not in gone))
    if not merged and not before.bytes.orphaned and not rewritten.merger.unfolded:
        return _copy(report, source, out, options)
    planned = replace(
        report,
        changed=True,
        after=_foreseen(before.bytes, rewritten),
        merged=tuple(merged),
        unfolded=tuple((name, tuple(dict.fromkeys(forms))) for name, forms in rewritten.merger.unfolded.items()),
        files_omitted=tuple((name, STRAY) for name in source.omitted),
    )
    if options.dry_run:
        return planned
    done = _stage(planned, source, rewritten, out, options, progress)
    if done.passed or merged or before.bytes.orphaned:
        return done
    told = done.parity.reasons[0] if done.parity else str(done.unchecked).split(";")[0]
    return _copy(report, source, out, options, f"left as it was, as a form with one table in memory failed: {told}")


def _worthwhile(duplicates: Sequence[Duplicate]) -> list[Duplicate]:
    return [entry for entry in duplicates if entry.exact and entry.tensors[0].nbytes >= SMALL_CONSTANT]


def _rewrite(source: ExportFolder, duplicates: Sequence[Duplicate], target: str) -> Rewritten:
    """Merge in every graph, in memory; weights stay where they are."""
    tensors = list(source.stored.tensors)
    contents = contents_of(tensors, duplicates)
    merger = Merger(contents, tensors, target)
    models, rows, first = [], [], 0
    data: dict[Path, list[StoredTensor]] = {}
    for graph in source.stored.graphs:
        model = slim_model(graph)
        renumber(model, first)
        rows.append(dict(rows_looked_up(model)))
        merger.merge(model)
        used = data.setdefault(graph.path.parent, [])
        used.extend(contents.root(tensors[number]) for _, number in referring(model))
        models.append(model)
        first += len(graph.tensors)
    return Rewritten(tuple(models), tuple(rows), data, merger)


def _forms(duplicate: Duplicate, merger: Merger) -> tuple[str, ...]:
    """How the graphs use what is left: the forms noted for these tensors, or the bytes that equal ones share; none
    where a transposed copy stays as it is."""
    noted = [form for tensor in duplicate.tensors for form in merger.forms.get(tensor.place, ())]
    shared = ("one place in the data file",) if duplicate.relation == "equal" else ()
    return tuple(dict.fromkeys(noted)) or shared


def _foreseen(before: ByteCounts, rewritten: Rewritten) -> ByteCounts:
    """The bytes that the result will have, its graphs' own left as they were."""
    sizes = {tensor.place: tensor.nbytes for held in rewritten.data.values() for tensor in held}
    total = sum(sizes.values())
    return ByteCounts(total, total, min(before.unique, total), None, 0, before.graph)


def _copy(
    report: DedupeReport,
    source: ExportFolder,
    out: Path | str,
    options: DedupeOptions,
    why: str = "the files are the same",
) -> DedupeReport:
    """Nothing to gain: OUT has the files as they are."""
    report = replace(report, unchecked=why)
    if options.dry_run:
        return report
    with StagedDirectory(out, overwrite=options.overwrite) as staged:
        _carry(source, [*source.carried, *(name for name, _ in source.stored.files)], staged.path)
        return _commit(replace(report, out=staged.out), source, staged)


def _stage(
    report: DedupeReport,
    source: ExportFolder,
    rewritten: Rewritten,
    out: Path | str,
    options: DedupeOptions,
    progress: Progress,
) -> DedupeReport:
    """Write the result beside OUT, check it, and give it the name where it passed."""
    with StagedDirectory(out, overwrite=options.overwrite) as staged:
        _carry(source, source.carried, staged.path)
        _write(source, rewritten, staged.path, progress)
        staged.start_flush()
        result = open_stored(staged.path)
        for folder in {graph.path.parent for graph in result.graphs}:
            write_presets(folder, presets_for([graph for graph in result.graphs if graph.path.parent == folder]))
        counted = count(result, None, _NO_LIMIT, progress)
        parity, reason = parity_of(source, staged.path, rewritten.rows, options, progress)
        report = replace(
            report,
            out=staged.out,
            files=counted.files,
            after=counted.bytes,
            kept=tuple(_worthwhile(counted.duplicates)),
            intact=weights_intact(result, _held(source, rewritten), source.root, staged.path),
            parity=parity,
            unchecked=reason,
            consented=not options.verify,
        )
        return _commit(report, source, staged) if report.passed else replace(report, out=None)


def _commit(report: DedupeReport, source: ExportFolder, staged: StagedDirectory) -> DedupeReport:
    write_record(staged.path, report.to_dict(), source.fingerprint())
    staged.commit()
    return report


def _carry(source: ExportFolder, names: Sequence[str], folder: Path) -> None:
    for name in dict.fromkeys(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.root / name, folder / name)


def _write(source: ExportFolder, rewritten: Rewritten, folder: Path, progress: Progress) -> None:
    """The data files and the graphs that refer to them."""
    layouts = {parent: lay_out(held) for parent, held in rewritten.data.items()}
    for parent, held in rewritten.data.items():
        target = folder / parent.relative_to(source.root)
        target.mkdir(parents=True, exist_ok=True)
        if any(tensor.nbytes for tensor in held):
            write_data(target / source.data_name(parent), held, layouts[parent], progress)
    for graph, model in zip(source.stored.graphs, rewritten.models, strict=True):
        _locate(model, rewritten.merger.contents, rewritten.merger.tensors, graph.path.parent, source, layouts)
        (folder / source.name_of(graph)).write_bytes(model.SerializeToString(deterministic=True))


def _locate(
    model: onnx.ModelProto,
    contents: Contents,
    tensors: Sequence[StoredTensor],
    parent: Path,
    source: ExportFolder,
    layouts: dict[Path, dict[tuple[str, int, int], int]],
) -> None:
    """Turn the references of a slim model into places in the new data file."""
    for tensor, number in list(referring(model)):
        root = contents.root(tensors[number])
        point(tensor, source.data_name(parent), layouts[parent][root.place], root.nbytes)


def _held(source: ExportFolder, rewritten: Rewritten) -> dict[Path, dict[int, StoredTensor]]:
    """Folder → offset in its data file → the tensor that lies there."""
    held = {}
    for parent, tensors in rewritten.data.items():
        known = {tensor.place: tensor for tensor in tensors}
        held[parent] = {offset: known[place] for place, offset in lay_out(tensors).items() if place[2]}
    return held
