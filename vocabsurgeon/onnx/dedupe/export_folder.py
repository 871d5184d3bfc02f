"""The files of an export to deduplicate: graphs to rewrite, data files to replace, everything else to carry along."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.folder import list_files
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.rows import BLOCK_BYTES, open_source
from vocabsurgeon.checkpoint.staging import refuse_overlap
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.data_file import DATA
from vocabsurgeon.onnx.files import OnnxFile
from vocabsurgeon.onnx.stored import Stored, open_stored

STRAY = "no graph refers to it"


@dataclass(frozen=True)
class ExportFolder:
    """`root`: the folder. `carried`: names of files that are copied as they are. `omitted`: names of stray data."""

    root: Path
    stored: Stored
    carried: tuple[str, ...]
    omitted: tuple[str, ...]

    def name_of(self, graph: OnnxFile) -> str:
        """The graph's file, relative to the root."""
        return graph.path.relative_to(self.root).as_posix()

    def data_name(self, folder: Path) -> str:
        """The data file for the graphs that lie in `folder`: `model.onnx_data`, or named after the only graph."""
        graphs = [graph.path.name for graph in self.stored.graphs if graph.path.parent == folder]
        return DATA if len(graphs) > 1 else f"{graphs[0]}_data"

    def fingerprint(self) -> dict[str, Any]:
        """`{"files": {name: {"bytes", "crc32"}}}` of everything that was read."""
        names = sorted({name for name, _ in self.stored.files} | set(self.carried))
        return {"files": {name: _sum(self.root / name) for name in names}}


def open_export(path: Path, out: Path | str) -> ExportFolder:
    """Read the export at `path`, a folder or one `.onnx` file, for writing to `out`.

    Of a folder every file is carried along; of a file nothing that lies beside it. Raises `UsageError` where `out` is
    the source or would hide it, `OnnxError` where there is no graph or a name leads out of the folder.
    """
    stored = open_stored(path)
    if stored.kind != "onnx":
        raise OnnxError("is a checkpoint, not an ONNX export", where=path, hint="name the folder that holds the graphs")
    if path.is_file():
        _refuse_parent(Path(out), path.parent)
        return ExportFolder(path.parent, stored, (), ())
    refuse_overlap(Path(out), path)
    graphs = {graph.path.relative_to(path).as_posix() for graph in stored.graphs}
    data = {file.relative_to(path).as_posix() for file in stored.data}
    carried = tuple(name for name in list_files(path) if name not in graphs | data and name != RECORD)
    return ExportFolder(path, stored, carried, stored.orphaned_files)


def _refuse_parent(out: Path, folder: Path) -> None:
    """OUT may lie beside a single file, but not be the folder that holds it, or one above."""
    real = Path(os.path.realpath(folder))
    if Path(os.path.realpath(out)) in (real, *real.parents):
        raise UsageError("OUT holds the source", where=out, hint="the source is never written: name another folder")


def _sum(path: Path) -> dict[str, Any]:
    check = count = 0
    with open_source(path) as file:
        while block := file.read(BLOCK_BYTES):
            check, count = zlib.crc32(block, check), count + len(block)
    return {"bytes": count, "crc32": f"{check:08x}"}
