"""ONNX files: which tensors they hold and where each lies. Reads graphs and file sizes, never weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path, PurePosixPath

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.element_types import ElementType, by_number
from vocabsurgeon.onnx.graph import GraphEntries, NodeEntry, TensorEntry, read_graph
from vocabsurgeon.onnx.tensors import StoredTensor

SMALL_CONSTANT = 1024
"""A constant that a node holds in fewer bytes (a shape, an axis, a scalar) counts as graph, not as weight."""
_DATA_MARKS = (".onnx_data", ".onnx.data")
_DATA_STARTS = ("onnx__",)
_DATA_ENDS = (".data", ".weight", ".bias")
"""How exporters name data files: one for a graph, with a number behind it too, or one for each tensor (TorchScript)."""


@dataclass(frozen=True)
class OnnxFile:
    """One `.onnx` file. `graph_bytes`: its size without the tensors it holds inline."""

    path: Path
    name: str
    tensors: tuple[StoredTensor, ...]
    graph_bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opsets: Mapping[str, int]
    nodes: tuple[NodeEntry, ...] = ()

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The external data files it refers to, in order of first use."""
        return tuple(dict.fromkeys(tensor.path for tensor in self.tensors if tensor.external))


def read_onnx(path: Path, name: str | None = None) -> OnnxFile:
    """Read one ONNX file; `name` is what messages and reports call it.

    Raises `OnnxError` where the file is no ONNX model, an external reference leads out of the file's folder or to
    nothing, a data file is too short for what the graph expects there, or a tensor's size contradicts its shape.
    """
    entries = read_graph(path)
    label = name or path.name
    uses = entries.consumers()
    found = [_resolve(path, label, entry, uses.get(entry.name, ())) for entry in entries.tensors]
    pairs = zip(found, entries.tensors, strict=True)
    tensors = [None if tensor is None else replace(tensor, whole=entry.whole) for tensor, entry in pairs]
    pairs = zip(tensors, entries.tensors, strict=True)
    counted = tuple(tensor for tensor, entry in pairs if tensor is not None and _counts(tensor, entry))
    inline = sum(tensor.nbytes for tensor in counted if not tensor.external and tensor.content is None)
    graph_bytes = path.stat().st_size - inline
    return OnnxFile(path, label, counted, graph_bytes, *_signature(entries), entries.opsets, tuple(entries.nodes))


def list_onnx(folder: Path) -> list[Path]:
    """The `.onnx` files below `folder`, sorted by name."""
    return sorted(path for path in folder.rglob("*.onnx") if path.is_file() and not _hidden(path, folder))


def data_files(folder: Path) -> list[Path]:
    """Files below `folder` that are named like external data of an ONNX model, referenced or not."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and _is_data(path.name))


def _is_data(name: str) -> bool:
    return any(mark in name for mark in _DATA_MARKS) or name.startswith(_DATA_STARTS) or name.endswith(_DATA_ENDS)


def _signature(entries: GraphEntries) -> tuple[tuple[str, ...], tuple[str, ...]]:
    held = {tensor.name for tensor in entries.tensors if tensor.role == "initializer"}
    return tuple(name for name in entries.inputs if name not in held), tuple(entries.outputs)


def _counts(tensor: StoredTensor, entry: TensorEntry) -> bool:
    return entry.role == "initializer" or tensor.external or tensor.nbytes >= SMALL_CONSTANT


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _resolve(path: Path, label: str, entry: TensorEntry, uses: tuple[str, ...]) -> StoredTensor | None:
    """Where the tensor lies; None for strings and undefined types, which are no weights."""
    element = by_number().get(entry.type_number)
    if element is None:
        return None
    where = f"{label}: tensor {entry.name}"
    shape = tuple(entry.dims)
    if any(size < 0 for size in shape):
        raise OnnxError(f"has the impossible shape {list(shape)}", where=where)
    nbytes = element.size_of(prod(shape))
    if entry.is_external:
        data, offset = _external(path, entry, nbytes, where)
        return StoredTensor(entry.name, element, shape, data, offset, nbytes, uses)
    return _inline(path, entry, element, shape, nbytes, uses, where)


def _inline(
    path: Path,
    entry: TensorEntry,
    element: ElementType,
    shape: tuple[int, ...],
    nbytes: int,
    uses: tuple[str, ...],
    where: str,
) -> StoredTensor:
    spans = entry.spans
    if spans is not None and len(spans) == 1 and spans[0][1] - spans[0][0] == nbytes:
        return StoredTensor(entry.name, element, shape, path, spans[0][0], nbytes, uses, external=False)
    if spans == [] and nbytes == 0:
        return StoredTensor(entry.name, element, shape, path, 0, 0, uses, external=False)
    content = _decode(path, entry, where)
    if len(content) != nbytes:
        raise OnnxError(f"holds {len(content)} bytes where its shape needs {nbytes}", where=where)
    return StoredTensor(entry.name, element, shape, path, entry.whole[0], nbytes, uses, external=False, content=content)


def _decode(path: Path, entry: TensorEntry, where: str) -> bytes:
    """The bytes of a tensor that is coded number by number."""
    import onnx

    start, end = entry.whole
    with open(path, "rb") as file:
        file.seek(start)
        coded = file.read(end - start)
    try:
        numbers = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(coded))
        return bytes(onnx.numpy_helper.from_array(numbers).raw_data)  # two to a byte where they have four bits
    except Exception as error:  # protobuf's and onnx's own, which share no base
        raise OnnxError(f"cannot be decoded: {error}", where=where) from error


def _external(path: Path, entry: TensorEntry, nbytes: int, where: str) -> tuple[Path, int]:
    """The data file and the offset in it, checked against the folder and the file's size."""
    data = _data_path(path, entry.external.get("location", ""), where)
    offset = _number(entry.external.get("offset") or "0", "offset", where)
    length = _number(entry.external.get("length") or str(nbytes), "length", where)
    if length != nbytes:
        raise OnnxError(f"refers to {length} bytes where its shape needs {nbytes}", where=where)
    try:
        size = data.stat().st_size
    except OSError as error:
        raise OnnxError(f"refers to {data.name}, which cannot be read: {error.strerror}", where=where) from error
    if not data.is_file():
        raise OnnxError(f"refers to {data.name}, which is not a file", where=where)
    if offset + nbytes > size:
        raise OnnxError(
            f"needs bytes {offset} to {offset + nbytes} of {data.name}, which ends at {size}",
            where=where,
            hint="the data file was cut short or belongs to another export: fetch it again",
        )
    return data, offset


def _data_path(path: Path, location: str, where: str) -> Path:
    """The file at `location` beside the ONNX file; a link may lead into the folder or the same hub cache entry."""
    relative = PurePosixPath(location)
    inside = location and not relative.is_absolute() and ".." not in relative.parts and "\x00" not in location
    hint = "copy the data file beside the graph"
    if not inside or "\\" in location:
        raise OnnxError(f"refers to {location!r}, outside the folder", where=where, hint=hint)
    data = path.parent / relative
    real, root = Path(os.path.realpath(data)), Path(os.path.realpath(path.parent))
    snapshots = [parent for parent in path.parent.absolute().parents if parent.name == "snapshots"]
    allowed = [root, *(Path(os.path.realpath(parent.parent / "blobs")) for parent in snapshots)]
    if not any(folder in real.parents for folder in allowed):
        raise OnnxError(f"refers to {location!r}, a link out of the folder", where=where, hint=hint)
    return data


def _number(text: str, key: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise OnnxError(f"has the external {key} {text!r}, not a number", where=where)
    return int(text)
