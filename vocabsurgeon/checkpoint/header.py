"""Safetensors headers: read, validate, encode. One `validate()` serves reading and writing; data is never touched."""

from __future__ import annotations

import json
import os
import stat
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.dtypes import DType, by_name
from vocabsurgeon.errors import HeaderError

MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors reference implementation."""
_PREFIX = struct.Struct("<Q")
_LIMIT = 2**63


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies: bytes `start` to `end` of `file`, little-endian, row-major unless `order` is set."""

    key: str
    dtype: DType
    shape: tuple[int, ...]
    file: str
    start: int
    end: int
    order: tuple[int, ...] | None = None
    """The dimensions from outermost to innermost as the bytes lie; None is row-major. Safetensors has no other."""

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return self.end - self.start

    @property
    def rows(self) -> int:
        """Length of the first dimension (1 for a scalar)."""
        return self.shape[0] if self.shape else 1


@dataclass(frozen=True)
class Header:
    """One file's header. `tensors` keeps the order of the header's keys, which need not be the order of the data."""

    file: str
    tensors: tuple[TensorInfo, ...]
    metadata: Mapping[str, str] | None
    data_start: int
    file_size: int
    pickled: bool = False
    """Whether the file is torch's own format; its tensors may share bytes and leave gaps."""

    def in_data_order(self) -> tuple[TensorInfo, ...]:
        """The tensors sorted by where their data begins."""
        return tuple(sorted(self.tensors, key=lambda info: (info.start, info.end)))


def read_header(path: Path, name: str) -> Header:
    """Read and validate the header of the safetensors file at `path`; `name` is what messages call it.

    Reads the header's bytes only. Raises `HeaderError` for anything the format forbids and for files that are not
    regular (a pipe would hang).
    """
    try:
        with open_regular(path, name) as file:
            size = os.fstat(file.fileno()).st_size
            text = _header_bytes(file.read, size, name)
    except OSError as error:
        raise HeaderError(f"cannot be read: {error.strerror}", where=name) from error
    entries, metadata = _parse(text, name)
    header = Header(name, (), metadata, _PREFIX.size + len(text), size)
    tensors = tuple(_tensor(key, entry, header) for key, entry in entries)
    return validate(replace(header, tensors=tensors))


def encode_header(tensors: Sequence[TensorInfo], metadata: Mapping[str, str] | None) -> bytes:
    """The bytes before the data: length prefix and JSON, padded with spaces so that the data starts at a multiple of 8.

    `start` and `end` of the given tensors are relative to the data's beginning.
    """
    document: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    for info in tensors:
        document[info.key] = {
            "dtype": info.dtype.name,
            "shape": list(info.shape),
            "data_offsets": [info.start, info.end],
        }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _PREFIX.pack(len(text)) + text


def validate(header: Header) -> Header:
    """Return `header` if its tensors lie end to end and fill the file exactly; raise `HeaderError` otherwise."""
    position = header.data_start
    for info in header.in_data_order():
        _require(info.start == position, header, info.key, "does not begin where the tensor before it ends")
        expected = _expected_bytes(info, header)
        _require(info.nbytes == expected, header, info.key, f"takes {info.nbytes} bytes, its shape needs {expected}")
        position = info.end
    if position != header.file_size:
        problem = "is truncated" if position > header.file_size else "has bytes that no tensor owns"
        raise HeaderError(
            f"{problem}: tensors end at byte {position}, the file at {header.file_size}",
            where=header.file,
            hint="fetch the file again",
        )
    return header


def open_regular(path: Path, name: str, buffering: int = 0) -> Any:
    """Open `path` for reading, unbuffered unless asked; raise `HeaderError` unless it is a regular file."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise HeaderError("is not a regular file", where=name)
    return open(path, "rb", buffering=buffering)


def _header_bytes(read: Any, size: int, name: str) -> bytes:
    prefix = read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise HeaderError(f"is not a safetensors file: only {size} bytes", where=name, hint="fetch the file again")
    length = _PREFIX.unpack(prefix)[0]
    if prefix.startswith(b"version "):
        raise HeaderError("is a Git LFS pointer, not the weights", where=name, hint="run `git lfs pull` in the folder")
    if length > MAX_HEADER_BYTES or length > size - _PREFIX.size:
        raise HeaderError(
            f"is not a safetensors file or is truncated: its header claims {length} bytes, the file has {size}",
            where=name,
            hint="fetch the file again",
        )
    text = bytes(read(length))
    if len(text) < length or not text.startswith(b"{"):
        raise HeaderError("has no JSON header", where=name)
    return text


def _parse(text: bytes, name: str) -> tuple[list[tuple[str, Any]], Mapping[str, str] | None]:
    try:
        document = json.loads(text.decode("utf-8"), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise HeaderError("has a header that is not valid JSON", where=name) from error
    if not isinstance(document, _Pairs):
        raise HeaderError("has a header that is not an object", where=name)
    entries = [pair for pair in document if pair[0] != "__metadata__"]
    twice = [key for key, count in Counter(key for key, _ in document).items() if count > 1]
    if twice:
        raise HeaderError("is named twice in the header", where=f"{name}: {twice[0]}")
    if not all(is_writable(key) for key, _ in entries):
        raise HeaderError("has a tensor name with half a surrogate pair", where=name)
    metadata = next((value for key, value in document if key == "__metadata__"), None)
    return entries, _metadata(metadata, name)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key named twice is seen."""


def _metadata(value: Any, name: str) -> Mapping[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, _Pairs) or not all(isinstance(text, str) for _, text in value):
        raise HeaderError("has __metadata__ that is not a map of strings", where=name)
    if not all(is_writable(key + text) for key, text in value):
        raise HeaderError("has __metadata__ with half a surrogate pair", where=name)
    return dict(value)


def is_writable(text: str) -> bool:
    """Whether `text` can be UTF-8 again: JSON can spell half a surrogate pair, a file cannot hold one."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _tensor(key: str, entry: Any, header: Header) -> TensorInfo:
    where = f"{header.file}: {key}"
    fields = dict(entry) if isinstance(entry, _Pairs) else {}
    if set(fields) != {"dtype", "shape", "data_offsets"} or len(entry) != 3:
        raise HeaderError("needs exactly dtype, shape and data_offsets", where=where)
    dtype = by_name().get(fields["dtype"]) if isinstance(fields["dtype"], str) else None
    if dtype is None:
        named = repr(fields["dtype"][:20]) if isinstance(fields["dtype"], str) else "which is no text"
        raise HeaderError(f"has the unknown dtype {named}", where=where)
    if not _counts(fields["shape"]) or not _counts(fields["data_offsets"]) or len(fields["data_offsets"]) != 2:
        raise HeaderError("has a shape or data_offsets that are not lists of whole numbers", where=where)
    start, end = fields["data_offsets"]
    return TensorInfo(
        key, dtype, tuple(fields["shape"]), header.file, start + header.data_start, end + header.data_start
    )


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < _LIMIT for item in value)


def _expected_bytes(info: TensorInfo, header: Header) -> int:
    """Bytes that the shape needs; a product beyond what 64 bits count is refused before it becomes costly."""
    elements = 1
    for length in info.shape:
        elements *= length
        _require(elements < _LIMIT, header, info.key, "has a shape whose product is beyond all files")
    _require(elements * info.dtype.bits % 8 == 0, header, info.key, "does not end at a whole byte")
    return info.dtype.size_of(elements)


def _require(condition: bool, header: Header, key: str, problem: str) -> None:
    if not condition:
        raise HeaderError(problem, where=f"{header.file}: {key}")
