"""`measure_runtime`: what a session of a graph takes in memory, in a fresh process for each set of options."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.onnx.files import OnnxFile
from vocabsurgeon.onnx.presets import Preset, presets_for, read_presets
from vocabsurgeon.onnx.runtime import probe
from vocabsurgeon.onnx.runtime.copies import count_copies, largest_table
from vocabsurgeon.onnx.runtime.report import GraphRuntime, Measured, RuntimeReport
from vocabsurgeon.onnx.tensors import StoredTensor

PROBE = Path(probe.__file__)
SMAPS = Path("/proc/self/smaps_rollup")
LONGEST = 900.0
"""Seconds after which a session that has not opened and run is given up."""
_RUNS, _TOKENS = 5, 64


def why_not_measured(graphs: Sequence[OnnxFile]) -> str | None:
    """Why `measure_runtime` cannot measure `graphs` on this system, None where it can."""
    if not graphs:
        return "a checkpoint has no graph to open"
    return None if SMAPS.exists() else "this system does not tell a process's memory by kind"


def measure_runtime(graphs: Sequence[OnnxFile], folder: Path, progress: Progress = silent) -> RuntimeReport:
    """Open each of `graphs` with default options and with the presets of `folder`, or with those we would give it.

    Each session lives in a process of its own that imports onnxruntime and numpy alone, loads the graph, runs one token
    and a short prompt from an empty cache, and is looked at from here. A session that does not open, or takes longer
    than a quarter of an hour, is a `failed` value. Runs what the graph computes; writes nothing. Raises `OnnxError`
    where the folder's presets are damaged.
    """
    presets = read_presets(folder)
    measured = []
    for done, graph in enumerate(graphs):
        progress("measure memory", done, len(graphs))
        measured.append(_measure_graph(graph, presets_for([graph]) if presets is None else presets))
    progress("measure memory", len(graphs), len(graphs))
    return RuntimeReport(tuple(measured))


def _measure_graph(graph: OnnxFile, presets: Sequence[Preset]) -> GraphRuntime:
    table = largest_table(graph.tensors)
    places = {tensor.place: tensor.nbytes for tensor in graph.tensors}
    return GraphRuntime(
        graph.name,
        sum(places.values()),
        None if table is None else table.nbytes,
        measure(graph.path, {}, table),
        {preset.name: measure(graph.path, preset.entries, table) for preset in presets},
    )


def measure(graph: Path, entries: Mapping[str, str], table: StoredTensor | None) -> Measured:
    """One session with session configuration `entries`, in a fresh process."""
    request = {"graph": str(graph), "entries": dict(entries), "runs": _RUNS, "tokens": _TOKENS}
    command = [sys.executable, "-P", str(PROBE), json.dumps(request)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        timer = Timer(LONGEST, process.kill)
        timer.start()
        try:
            answer = _parsed(process.stdout.readline())
            copies = None if table is None or "failed" in answer else count_copies(process.pid, table)
        finally:
            timer.cancel()
            process.kill()
    return Measured(
        resident_anonymous=answer.get("resident_anonymous"),
        resident_file=answer.get("resident_file"),
        peak=answer.get("peak"),
        peak_load=answer.get("peak_load"),
        table_copies=copies,
        load_s=answer.get("load_s"),
        step_s=answer.get("step_s"),
        prefill_s=answer.get("prefill_s"),
        not_run=answer.get("failed") or answer.get("not_run"),
    )


def _parsed(line: str) -> dict[str, Any]:
    """The probe's answer; a process that died before it had one says so."""
    if not line:
        return {"failed": "the process that opened the session died, or took too long"}
    answer: dict[str, Any] = json.loads(line)
    return answer
