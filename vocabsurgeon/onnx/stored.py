"""What lies at an audited path, whoever wrote it: graphs or shards, their tensors, and the data files beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.files import OnnxFile, data_files, list_onnx, read_onnx
from vocabsurgeon.onnx.tensors import StoredTensor, checkpoint_tensors

_HINT = "name an ONNX file, a folder of them, or a checkpoint"


@dataclass(frozen=True)
class Stored:
    """`kind`: `onnx` or `checkpoint`. `data`: data file → first byte that could be a tensor's. `graph_bytes`: graphs
    without their inline tensors, or safetensors headers. `files`: name and size of everything counted."""

    kind: str
    tensors: tuple[StoredTensor, ...]
    data: dict[Path, int]
    graph_bytes: int
    files: tuple[tuple[str, int], ...]
    orphaned_files: tuple[str, ...] = ()
    graphs: tuple[OnnxFile, ...] = ()


def open_stored(path: Path) -> Stored:
    """Read graphs or headers at `path`; raises `UsageError`, `OnnxError` or `CheckpointError` where there are none."""
    if path.is_file():
        if path.suffix != ".onnx":
            raise UsageError("is not an .onnx file", where=path, hint=_HINT)
        return _single(path)
    if not path.is_dir():
        raise UsageError("does not exist", where=path, hint=_HINT)
    has_weights = any(any(path.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin"))
    graphs = [] if has_weights and not any(path.glob("*.onnx")) else list_onnx(path)
    if graphs:
        return _folder(path, graphs)
    if has_weights:
        return _checkpoint(Checkpoint.open(path))
    raise OnnxError("holds neither ONNX files nor weights", where=path, hint=_HINT)


def _single(path: Path) -> Stored:
    """One graph; a data file shared with graphs beside it is orphaned only where none of them points."""
    graph = read_onnx(path)
    own = dict.fromkeys(graph.data_files, 0)
    siblings = [other for other in path.parent.glob("*.onnx") if other != path] if own else []
    shared = [tensor for other in siblings for tensor in read_onnx(other).tensors if tensor.path in own]
    foreign = _only_elsewhere(graph.tensors, shared)
    return Stored(
        "onnx",
        (*graph.tensors, *foreign),
        own,
        graph.graph_bytes,
        _sizes(path.parent, [path, *own]),
        graphs=(graph,),
    )


def _only_elsewhere(tensors: Sequence[StoredTensor], shared: Sequence[StoredTensor]) -> list[StoredTensor]:
    places = {tensor.place for tensor in tensors}
    return [tensor.named(f"{tensor.name} (of another graph)") for tensor in shared if tensor.place not in places]


def _folder(folder: Path, paths: Sequence[Path]) -> Stored:
    graphs = tuple(read_onnx(path, path.relative_to(folder).as_posix()) for path in paths)
    tensors = tuple(
        tensor.named(f"{graph.name}:{tensor.name}") if len(graphs) > 1 else tensor
        for graph in graphs
        for tensor in graph.tensors
    )
    referenced = dict.fromkeys(data for graph in graphs for data in graph.data_files)
    strays = [path for path in data_files(folder) if path not in referenced]
    return Stored(
        "onnx",
        tensors,
        dict.fromkeys((*referenced, *strays), 0),
        sum(graph.graph_bytes for graph in graphs),
        _sizes(folder, [*paths, *referenced, *strays]),
        tuple(stray.relative_to(folder).as_posix() for stray in strays),
        graphs,
    )


def _checkpoint(checkpoint: Checkpoint) -> Stored:
    headers = checkpoint.shards.headers
    return Stored(
        "checkpoint",
        tuple(checkpoint_tensors(checkpoint)),
        {checkpoint.path(name): header.data_start for name, header in headers.items()},
        sum(header.data_start for header in headers.values()),
        _sizes(checkpoint.root, [checkpoint.path(name) for name in headers]),
    )


def _sizes(folder: Path, paths: Sequence[Path]) -> tuple[tuple[str, int], ...]:
    return tuple((path.relative_to(folder).as_posix(), path.stat().st_size) for path in paths)
