"""Where the bytes of each storage lie in a weights file of torch: the zip format, and the one before torch 1.6."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

from vocabsurgeon.checkpoint.header import MAX_HEADER_BYTES
from vocabsurgeon.checkpoint.pickled.machine import read_pickle
from vocabsurgeon.checkpoint.pickled.records import Malformed, PickledTensor, Storage

ZIP_START = b"PK\x03\x04"
OLD_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""A pickle of torch's magic number."""
_PROTOCOL = 1001
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LENGTH = struct.Struct("<q")
Place = tuple[int, int]
"""First byte and the byte after the last."""


def read_zip(file: BufferedReader) -> tuple[Any, Mapping[str, Place]]:
    """The pickled value, and storage key → place. Nothing is extracted; names in the archive are only compared.

    Raises `Malformed` for an archive that torch does not write: compressed or encrypted entries, names that occur
    twice, entries that overlap, a local header that contradicts the directory, big-endian data.
    """
    entries = _entries(file)
    folder = next(iter(entries), "").partition("/")[0]
    if f"{folder}/constants.pkl" in entries:
        raise Malformed("is a TorchScript archive: code, not weights")
    if f"{folder}/data.pkl" not in entries:
        raise Malformed("is a zip archive without torch's data.pkl")
    if f"{folder}/byteorder" in entries and _content(file, entries[f"{folder}/byteorder"]) != b"little":
        raise Malformed("holds big-endian data")
    value = read_pickle(io.BytesIO(_content(file, entries[f"{folder}/data.pkl"])))
    names = {storage.key: f"{folder}/data/{storage.key}" for storage in storages_in(value)}
    missing = next((name for name in names.values() if name not in entries), None)
    if missing is not None:
        raise Malformed(f"has no entry {missing[:80]} in its archive")
    places = {key: _place(file, entries[name]) for key, name in names.items()}
    _require_apart(places)
    return value, places


def read_old(file: BufferedReader) -> tuple[Any, Mapping[str, Place]]:
    """The same for the old format: pickles one after another, then each storage behind its length."""
    pickles = _Bounded(file)
    head = [read_pickle(pickles) for _ in range(3)]
    if head[1] != _PROTOCOL or not isinstance(head[2], dict):
        raise Malformed("has a header that torch does not write")
    value, keys = read_pickle(pickles), read_pickle(pickles)
    sizes = {storage.key: storage for storage in storages_in(value)}
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Malformed("has no list of its storages")
    return value, _after_another(file, keys, sizes)


def _after_another(file: BufferedReader, keys: list[str], storages: Mapping[str, Storage]) -> Mapping[str, Place]:
    if len(set(keys)) != len(keys) or set(keys) != set(storages):
        raise Malformed("lists other storages than its tensors use")
    size, places = os.fstat(file.fileno()).st_size, {}
    for key in keys:
        length = file.read(_LENGTH.size)
        start = file.tell()
        count = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else -1
        end = start + count * storages[key].type.itemsize
        if count < 0 or end > size:
            raise Malformed(f"is truncated in storage {key[:40]}")
        places[key] = (start, end)
        file.seek(end)
    return places


def storages_in(value: Any) -> list[Storage]:
    """The distinct storages of a state dict's tensors, one a key (the first that names it)."""
    tensors = value.values() if isinstance(value, dict) else ()
    by_key: dict[str, Storage] = {}
    for tensor in tensors:
        if isinstance(tensor, PickledTensor):
            by_key.setdefault(tensor.storage.key, tensor.storage)
    return list(by_key.values())


def _entries(file: BufferedReader) -> Mapping[str, zipfile.ZipInfo]:
    try:
        listed = zipfile.ZipFile(_Bounded(file), "r").infolist()
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OSError) as error:
        raise Malformed("is a broken or truncated zip archive") from error
    entries = {info.orig_filename: info for info in listed}
    if len(entries) != len(listed):
        raise Malformed("is a zip archive with two entries of one name")
    return entries


def _content(file: BufferedReader, info: zipfile.ZipInfo) -> bytes:
    start, end = _place(file, info)
    if end - start > MAX_HEADER_BYTES:
        raise Malformed(f"has a pickle of {end - start} bytes, more than any state dict needs")
    file.seek(start)
    return file.read(end - start)


def _place(file: BufferedReader, info: zipfile.ZipInfo) -> Place:
    """Where the entry's bytes lie, by its local header; they have to be stored as they are."""
    name = info.orig_filename
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size != info.compress_size:
        raise Malformed(f"has the compressed or encrypted entry {name[:80]}; torch stores bytes as they are")
    file.seek(info.header_offset)
    raw = file.read(_LOCAL.size)
    if len(raw) < _LOCAL.size:
        raise Malformed("is truncated")
    signature, _, _, method, *_, name_length, extra_length = _LOCAL.unpack(raw)
    encoded = name.encode("utf-8" if info.flag_bits & 0x800 else "cp437", "replace")
    if signature != ZIP_START or method != zipfile.ZIP_STORED or file.read(name_length) != encoded:
        raise Malformed(f"has a local header that contradicts the directory, for {name[:80]}")
    start = info.header_offset + _LOCAL.size + name_length + extra_length
    if start + info.file_size > os.fstat(file.fileno()).st_size:
        raise Malformed(f"is truncated in {name[:80]}")
    return start, start + info.file_size


def _require_apart(places: Mapping[str, Place]) -> None:
    position = 0
    for key, (start, end) in sorted(places.items(), key=lambda item: item[1]):
        if start < position:
            raise Malformed(f"has storages that overlap, at {key[:40]}")
        position = end


@dataclass
class _Bounded:
    """The file for readers that trust lengths: no single read, and not all of them together, beyond a header's size."""

    file: BufferedReader
    left: int = MAX_HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        return self._counted(self.file.read(min(size, self.left + 1) if size >= 0 else self.left + 1))

    def readline(self) -> bytes:
        return self._counted(self.file.readline(self.left + 1))

    def tell(self) -> int:
        return self.file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def seekable(self) -> bool:
        return True

    def _counted(self, data: bytes) -> bytes:
        self.left -= len(data)
        if self.left < 0:
            raise Malformed("has headers longer than any state dict needs")
        return data
