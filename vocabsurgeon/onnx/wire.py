"""The protobuf wire format, read by position: fields and where their content lies, so that weights stay on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vocabsurgeon.errors import OnnxError

_BLOCK = 1 << 20
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
MAX_TEXT = 1 << 20
"""The longest name or op type that is read; a longer one is no name."""


@dataclass(frozen=True)
class Field:
    """One field of a message: `value` of a varint, or where its bytes lie in the file (`start` to `end`)."""

    number: int
    value: int | None
    start: int
    end: int


class WireFile:
    """A protobuf file opened for reading. Use as a context manager; raises `OnnxError` for anything malformed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise OnnxError(f"cannot be read: {error.strerror}", where=path) from error
        self.size = os.fstat(self._descriptor).st_size
        self._block, self._block_start = b"", 0

    def __enter__(self) -> WireFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """The fields of the message that lies at `start` to `end`, in order; their content is not read."""
        position = start
        while position < end:
            key, position = self._varint(position, end)
            field, position = self._field(key >> 3, key & 7, position, end)
            yield field

    def bytes_of(self, field: Field) -> bytes:
        """The content of a length-delimited field."""
        return self._read(field.start, field.end - field.start)

    def text(self, field: Field) -> str:
        """The content of a string field."""
        if field.end - field.start > MAX_TEXT:
            raise self._malformed("a name is longer than a megabyte")
        return self.bytes_of(field).decode("utf-8", "backslashreplace")

    def integers(self, field: Field) -> list[int]:
        """The signed values of a repeated integer field, packed or one by one."""
        if field.value is not None:
            return [_signed(field.value)]
        values, position = [], field.start
        while position < field.end:
            value, position = self._varint(position, field.end)
            values.append(_signed(value))
        return values

    def _field(self, number: int, wire_type: int, position: int, end: int) -> tuple[Field, int]:
        if wire_type == _VARINT:
            value, after = self._varint(position, end)
            return Field(number, value, position, after), after
        if wire_type == _BYTES:
            length, position = self._varint(position, end)
        elif wire_type in (_FIXED64, _FIXED32):
            length = 8 if wire_type == _FIXED64 else 4
        else:
            raise self._malformed(f"has a field of unknown wire type {wire_type}")
        if number == 0 or position + length > end:
            raise self._malformed("ends in the middle of a field")
        return Field(number, None, position, position + length), position + length

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        value, shift = 0, 0
        while position < end and shift < 70:
            byte = self._byte(position)
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, position
            shift += 7
        raise self._malformed("ends in the middle of a number")

    def _byte(self, position: int) -> int:
        index = position - self._block_start
        if not 0 <= index < len(self._block):
            self._block = os.pread(self._descriptor, _BLOCK, position)
            self._block_start, index = position, 0
            if not self._block:
                raise self._malformed("ends early")
        return self._block[index]

    def _read(self, start: int, length: int) -> bytes:
        index = start - self._block_start
        if index >= 0 and index + length <= len(self._block):
            return self._block[index : index + length]
        content = os.pread(self._descriptor, length, start)
        if len(content) != length:
            raise self._malformed("ends early")
        return content

    def _malformed(self, reason: str) -> OnnxError:
        return OnnxError(f"is not a readable ONNX file: it {reason}", where=self.path)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
