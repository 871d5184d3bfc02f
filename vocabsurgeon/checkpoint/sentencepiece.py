"""The pieces of a SentencePiece model file, read as data: a walk over two fields of its protobuf, nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from vocabsurgeon.errors import TokenizerError

_PIECES, _PIECE_TEXT = 1, 1
"""Field numbers: `ModelProto.pieces` and `SentencePiece.piece`."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def piece_texts(raw: bytes, where: str) -> tuple[str, ...]:
    """The text of each piece in the order of the file, which is the order of SentencePiece's own ids.

    Raises `TokenizerError` where `raw` is no SentencePiece model.
    """
    try:
        pieces = [_text_of(field) for number, field in _fields(raw) if number == _PIECES]
    except (ValueError, IndexError) as error:
        raise TokenizerError("is not a SentencePiece model", where=where) from error
    if not pieces:
        raise TokenizerError("is not a SentencePiece model: it holds no pieces", where=where)
    return tuple(pieces)


def _text_of(message: bytes) -> str:
    return next(field.decode("utf-8") for number, field in _fields(message) if number == _PIECE_TEXT)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Field number and bytes of each length-delimited field; the others are stepped over."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            length, position = _varint(message, position)
            if position + length > len(message):
                raise ValueError("a field reaches behind the end")
            yield number, message[position : position + length]
            position += length
        elif kind == _VARINT:
            _, position = _varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            position += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"unknown wire type {kind}")
    if position != len(message):
        raise ValueError("ends inside a field")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise ValueError("a number of more than ten bytes")
