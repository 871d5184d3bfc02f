"""Run a graph and its deduplicated form in onnxruntime on the same made-up inputs, one session at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.progress import Progress
from vocabsurgeon.onnx.dedupe.comparison import Comparison
from vocabsurgeon.onnx.dedupe.feeds import Array, Input, feeds
from vocabsurgeon.onnx.presets import mapped_entries

Feeds = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True)
class Twin:
    """A graph before and after. `rows`: input → rows of the table it looks up. `dtype`: of its weights (torch name).
    `texts`: token ids of real text, where there is a tokenizer. `head`: width of an attention head, where told."""

    name: str
    before: Path
    after: Path
    dtype: str
    rows: Mapping[str, int]
    texts: Sequence[Sequence[int]] = ()
    head: int | None = None


def compare_runs(twin: Twin, comparison: Comparison, progress: Progress) -> list[str]:
    """Add every output of `twin` on every input to `comparison`; return what could not be run before, and why.

    A graph that ran before and does not run after has failed: its missing outputs are added as differences.
    """
    progress("run", 0, 2)
    before, skipped = _run(twin, twin.before, None)
    progress("run", 1, 2)
    after, failed = _run(twin, twin.after, before)
    for check, outputs in before.items():
        for name, value in outputs.items():
            found = after.get(check, {}).get(name, f"nothing: {'; '.join(failed)}")
            comparison.add(twin.name, check, name, twin.dtype, value, found)
    return [f"{twin.name}: {reason}" for reason in skipped]


def _run(twin: Twin, path: Path, only: Feeds | None) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Outputs by check, and why others have none. `only`: the checks to run, None for all."""
    session, reason = _open(path)
    if session is None:
        return {}, [f"onnxruntime cannot load it: {reason}"]
    names = [value.name for value in session.get_outputs()]
    outputs: dict[str, dict[str, Any]] = {}
    failed = []
    inputs = [Input(value.name, value.type, value.shape, twin.rows.get(value.name)) for value in session.get_inputs()]
    made = feeds(inputs, twin.texts, twin.head)
    if not made:
        failed.append("it takes inputs that cannot be made up")
    for check, given in made.items():
        if only is not None and check not in only:
            continue
        try:
            outputs[check] = dict(zip(names, session.run(None, given), strict=True))
        except Exception as error:  # onnxruntime's exceptions share no base below Exception
            failed.append(f"{check} did not run: {_first_line(error)}")
    return outputs, failed


def _open(path: Path) -> tuple[Any, str]:
    """A session whose weights stay in the mapped file, or why there is none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in mapped_entries(path).items():
        options.add_session_config_entry(key, value)
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]), ""
    except Exception as error:  # onnxruntime's exceptions share no base below Exception
        return None, _first_line(error)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
