"""What is checked on a staged result: every byte of its data against the source, and the outputs of its graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.progress import Progress
from vocabsurgeon.errors import VocabsurgeonError
from vocabsurgeon.onnx.dedupe.comparison import Comparison, OutputParity
from vocabsurgeon.onnx.dedupe.export_folder import ExportFolder
from vocabsurgeon.onnx.dedupe.options import DedupeOptions
from vocabsurgeon.onnx.dedupe.runs import Twin, compare_runs
from vocabsurgeon.onnx.duplicates import same_bytes
from vocabsurgeon.onnx.expected import export_element
from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.parity.prompts import TEXTS
from vocabsurgeon.onnx.runtime_types import TYPES
from vocabsurgeon.onnx.stored import Stored
from vocabsurgeon.onnx.tensors import StoredTensor

_TEXTS, _LONGEST = 2, 16
"""How many texts a graph is run on, and how many tokens of each."""
_HEADS = {"genai_config.json": "head_size", "config.json": "head_dim"}
"""Configuration → its key for the width of a head: onnxruntime-genai's graphs leave it open."""
_WIDEST = 4096


def weights_intact(result: Stored, held: Mapping[Path, Mapping[int, StoredTensor]], before: Path, after: Path) -> bool:
    """Whether each external tensor of `result` (below `after`) is, byte for byte, the source tensor that `held` says.

    `held`: folder of the source (below `before`) → offset in its new data file → source tensor.
    """
    with OpenFiles() as files:
        for tensor in {tensor.place: tensor for tensor in result.tensors if tensor.external}.values():
            folder = before / tensor.path.parent.relative_to(after)
            original = held[folder].get(tensor.offset)
            if original is None or not same_bytes(original, tensor, files):
                return False
    return True


def parity_of(
    source: ExportFolder, staged: Path, rows: Sequence[Mapping[str, int]], checks: DedupeOptions, progress: Progress
) -> tuple[OutputParity | None, str | None]:
    """Run every graph of `source` and its form below `staged`; the parity, or None and why it was not checked.

    A graph that cannot be run leaves the whole unchecked: half a proof is none.
    """
    if not checks.verify:
        return None, "not asked for"
    texts, head = _texts(source), _head(source)
    comparison = Comparison(checks.atol, checks.rtol)
    skipped: list[str] = []
    for graph, looked_up in zip(source.stored.graphs, rows, strict=True):
        name = source.name_of(graph)
        dtype = _dtype(graph.tensors)
        ran = comparison.outputs
        twin = Twin(name, graph.path, staged / name, dtype, looked_up, texts, head)
        told = compare_runs(twin, comparison, progress)
        if comparison.outputs == ran:
            return None, "; ".join(told) or f"{name} has no outputs"
        skipped += told
    return comparison.report(tuple(skipped)), None


def _texts(source: ExportFolder) -> list[list[int]]:
    """Token ids of some text, where the export has a tokenizer that can be read."""
    path = source.root / "tokenizer.json"
    if "tokenizer.json" not in source.carried:
        return []
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception:  # tokenizers raises bare Exception; an export runs without its tokenizer too
        return []
    encoded = [tokenizer.encode(text).ids[:_LONGEST] for text in TEXTS[:_TEXTS]]
    return [ids for ids in encoded if ids]


def _head(source: ExportFolder) -> int | None:
    """Numbers of one attention head as a configuration beside the graphs tells."""
    for name, key in _HEADS.items():
        try:
            document = JsonText.parse((source.root / name).read_text(encoding="utf-8"), name).value
        except (OSError, UnicodeDecodeError, VocabsurgeonError):  # a graph runs without its configuration too
            continue
        found = [value for value in _values(document, key) if type(value) is int and 0 < value <= _WIDEST]
        if found:
            return found[0]
    return None


def _values(document: Any, key: str) -> Iterator[Any]:
    """What `key` holds at any level of nested objects."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from [value] if name == key else _values(value, key)


def _dtype(tensors: Sequence[StoredTensor]) -> str:
    element = export_element(tensors)
    return next((name for name, onnx_name in TYPES.items() if onnx_name == element.name), "float32")
