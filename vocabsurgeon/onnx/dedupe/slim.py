"""A graph without its weights: the file copied field by field, each large tensor reduced to a numbered reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.files import SMALL_CONSTANT, OnnxFile
from vocabsurgeon.onnx.tensors import StoredTensor
from vocabsurgeon.onnx.wire import Field, WireFile

if TYPE_CHECKING:
    import onnx

Span = tuple[int, int]
_BYTES, _VARINT = 2, 0
_KEPT = (1, 2, 8, 12, 16)
"""Fields of a TensorProto that stay: dims, data_type, name, doc_string, metadata_props."""
_EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 13, 14, 1
_MARK = "#"


def slim_model(file: OnnxFile) -> onnx.ModelProto:
    """The model of `file` whose tensors are references (see `reference_of`): `tensors[i]` of `file` is number `i`.

    What lies outside the file and what takes `SMALL_CONSTANT` bytes or more becomes a reference; the rest is as it was,
    and so is everything else in the file, known to us or not. Takes as much memory as the graph without weights.
    Raises `OnnxError` where onnx cannot parse it.
    """
    import onnx

    spans = {tensor.whole: number for number, tensor in enumerate(file.tensors) if tensor.whole and _moves(tensor)}
    with WireFile(file.path) as source:
        content = _copy(source, 0, source.size, sorted(spans), spans)
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's, whose class depends on its backend
        raise OnnxError(f"cannot be parsed: {error}", where=file.name) from error
    return model


def reference_of(tensor: onnx.TensorProto) -> int | None:
    """The number that a tensor of a slim model refers to; None where it holds its content."""
    for entry in tensor.external_data:
        if entry.key == "location" and entry.value.startswith(_MARK):
            return int(entry.value[1:])
    return None


def refer(tensor: onnx.TensorProto, number: int) -> None:
    """Make `tensor` refer to number `number`, in place."""
    del tensor.external_data[:]
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", f"{_MARK}{number}"


def _moves(tensor: StoredTensor) -> bool:
    return tensor.external or tensor.nbytes >= SMALL_CONSTANT


def _copy(file: WireFile, start: int, end: int, spans: Sequence[Span], numbers: Mapping[Span, int]) -> bytes:
    """The message at `start` to `end`, with what lies at `spans` (all inside it) replaced by references."""
    copied = bytearray()
    kept_from = record = start
    for item in file.fields(start, end):
        inside = [span for span in spans if item.start <= span[0] and span[1] <= item.end]
        if inside and item.value is None:
            copied += file.bytes_of(Field(0, None, kept_from, record))
            is_tensor = inside[0] == (item.start, item.end)
            part = _reference(file, item, numbers[inside[0]]) if is_tensor else _copy_inner(file, item, inside, numbers)
            copied += _record(item.number, part)
            kept_from = item.end
        record = item.end
    copied += file.bytes_of(Field(0, None, kept_from, end))
    return bytes(copied)


def _copy_inner(file: WireFile, item: Field, spans: Sequence[Span], numbers: Mapping[Span, int]) -> bytes:
    return _copy(file, item.start, item.end, spans, numbers)


def _reference(file: WireFile, tensor: Field, number: int) -> bytes:
    """The TensorProto without its content, referring to `number`."""
    copied = bytearray()
    record = tensor.start
    for item in file.fields(tensor.start, tensor.end):
        if item.number in _KEPT:
            copied += file.bytes_of(Field(0, None, record, item.end))
        record = item.end
    entry = _record(1, b"location") + _record(2, f"{_MARK}{number}".encode())
    return bytes(copied) + _record(_EXTERNAL_DATA, entry) + _varint(_DATA_LOCATION << 3 | _VARINT) + _varint(_EXTERNAL)


def _record(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    coded = bytearray()
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    coded.append(value)
    return bytes(coded)
