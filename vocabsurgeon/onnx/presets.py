"""Two sets of onnxruntime session options that an export brings along, and how to open a session with one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.files import OnnxFile, read_onnx

if TYPE_CHECKING:
    import onnxruntime

PRESETS = "ort_session_options.json"
"""The file beside the graph. Its keys are those of `session_options` in onnxruntime-genai's `genai_config.json`."""
SCHEMA = "vocabsurgeon.session-options/1"
MEMORY_FIRST, SPEED_FIRST = "memory-first", "speed-first"
FOLD_LIMIT = "optimization.constant_folding_max_output_size_in_bytes"
NO_PREPACKING = "session.disable_prepacking"
_SMALLEST_TABLE = 1 << 10
_ERRORS = 3
ALLOWED = (
    FOLD_LIMIT,
    NO_PREPACKING,
    "session.use_device_allocator_for_initializers",
    "session.prepack.enable_parallel",
)
"""The entries that are passed on from a file: some others make a session write files."""


@dataclass(frozen=True)
class Preset:
    """`entries`: session configuration entries, key → value. `about`: what it is good for and what it costs."""

    name: str
    about: str
    entries: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The object of the file."""
        return {"about": self.about, "config_entries": dict(self.entries)}


def presets_for(graphs: Sequence[OnnxFile]) -> tuple[Preset, ...]:
    """Memory-first and speed-first for graphs that lie in one folder.

    A table that a product reads through a `Reshape` to its own shape (our exports, see `passes.weight_layout`) stays in
    the mapped file where the session may not fold so large a result; every other weight is packed. That holds for
    float32: other types are converted by the session, table and all. For graphs of another form all packing is off.
    """
    views = [tensor for graph in graphs for tensor in graph.tensors if "Reshape" in tensor.uses]
    tables = [tensor.nbytes for tensor in views if len(tensor.shape) == 2 and tensor.element.name == "FLOAT"]
    largest = max(tables, default=0)
    speed = Preset(SPEED_FIRST, "packs every weight when it loads: another copy of the LM head's table in memory")
    if largest < _SMALLEST_TABLE:
        about = "packs no weight, so that all stay in the mapped file; slower, and no help where a transpose is folded"
        return Preset(MEMORY_FIRST, about, {NO_PREPACKING: "1"}), speed
    about = "keeps the vocabulary table in the mapped file alone; a prompt of 64 takes a tenth longer, a step no longer"
    return Preset(MEMORY_FIRST, about, {FOLD_LIMIT: str(largest - 1)}), speed


def mapped_entries(graph: Path) -> dict[str, str]:
    """Entries for a session that checks: it copies no weight that it can run from the mapped file, and its threads
    sleep when they have nothing to do, where spinning they would take the time of those that have."""
    return {**presets_for([read_onnx(graph)])[0].entries, NO_PREPACKING: "1", "session.intra_op.allow_spinning": "0"}


def write_presets(folder: Path, presets: Sequence[Preset]) -> None:
    """Write them beside the graph in `folder`."""
    document = {"schema": SCHEMA, "presets": {preset.name: preset.to_dict() for preset in presets}}
    (folder / PRESETS).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def read_presets(folder: Path) -> tuple[Preset, ...] | None:
    """The presets beside the graphs in `folder`, None where there is no such file.

    Raises `OnnxError` where the file is damaged or holds an entry that is not in `ALLOWED`.
    """
    path = folder / PRESETS
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = document["presets"].items()
        presets = tuple(Preset(name, str(each.get("about", "")), dict(each["config_entries"])) for name, each in found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OnnxError("is no file of session options", where=path, hint="delete it, or export again") from error
    for preset in presets:
        _require_allowed(preset, path)
    return presets


def session_options(folder: Path | str, name: str = MEMORY_FIRST) -> onnxruntime.SessionOptions:
    """Options for `onnxruntime.InferenceSession` from preset `name` of the export in `folder`.

    They log errors, not warnings. Raises `UsageError` where the folder has no presets or none of that name, `OnnxError`
    where their file is damaged.
    """
    presets = read_presets(Path(folder))
    if presets is None:
        raise UsageError(f"has no {PRESETS}", where=folder, hint="`vocabsurgeon export` writes it")
    chosen = next((preset for preset in presets if preset.name == name), None)
    if chosen is None:
        names = ", ".join(preset.name for preset in presets)
        raise UsageError(f"has no preset {name!r}", where=Path(folder) / PRESETS, hint=f"use one of: {names}")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS  # else the session warns that it does not fold the table: that is the point
    for key, value in chosen.entries.items():
        options.add_session_config_entry(key, value)
    return options


def _require_allowed(preset: Preset, path: Path) -> None:
    for key, value in preset.entries.items():
        if key not in ALLOWED or not isinstance(value, str) or not (value.isascii() and value.isdigit()):
            raise OnnxError(f"preset {preset.name} sets {key!r} to {value!r}, which is not known", where=path)
