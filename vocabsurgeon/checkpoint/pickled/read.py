"""`read_pickled`: a weights file of torch → the same `Header` that a safetensors file gives, pointing into the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.header import Header, TensorInfo, is_writable, open_regular
from vocabsurgeon.checkpoint.pickled.places import OLD_START, ZIP_START, Place, read_old, read_zip
from vocabsurgeon.checkpoint.pickled.records import Malformed, PickledTensor
from vocabsurgeon.errors import HeaderError

METADATA = {"format": "pt"}
"""What transformers writes into the safetensors files that hold torch weights."""


def read_pickled(path: Path, name: str) -> Header:
    """Where the tensors of the state dict at `path` lie; `name` is what messages call the file. Reads no tensor data.

    Tensors whose dimensions are only permuted keep an `order`; two tensors may share bytes. Raises `HeaderError` for
    anything that is no state dict of plain dense tensors, and for what torch's `weights_only` loader refuses.
    """
    try:
        with open_regular(path, name, buffering=-1) as file:
            size = os.fstat(file.fileno()).st_size
            value, places = _reader(file.peek(len(OLD_START)))(file)
        tensors = tuple(_info(key, tensor, places, name) for key, tensor in _state_dict(value).items())
    except Malformed as error:
        raise HeaderError(str(error), where=name, hint=_HINT) from error
    except OSError as error:
        raise HeaderError(f"cannot be read: {error.strerror}", where=name) from error
    return Header(name, tensors, METADATA, min((info.start for info in tensors), default=size), size, pickled=True)


_HINT = "fetch it again, or load it once with transformers and save it to get safetensors"


def _reader(start: bytes) -> Any:
    if start.startswith(ZIP_START):
        return read_zip
    if start.startswith(OLD_START):
        return read_old
    if start.startswith(b"version "):
        raise Malformed("is a Git LFS pointer, not the weights (`git lfs pull`)")
    raise Malformed("is no weights file of torch")


def _state_dict(value: Any) -> Mapping[str, PickledTensor]:
    if not isinstance(value, dict) or not value:
        raise Malformed("holds no state dict")
    for key, tensor in value.items():
        if not isinstance(key, str) or key == "__metadata__" or not is_writable(key):
            raise Malformed("holds a key that cannot be a tensor's name in safetensors")
        if not isinstance(tensor, PickledTensor):
            raise Malformed(f"holds {key[:80]!r}, which is no tensor: not a plain state dict")
    return value


def _info(key: str, tensor: PickledTensor, places: Mapping[str, Place], name: str) -> TensorInfo:
    """The tensor's bytes in the file. They have to be dense; rows or columns cut out of a larger tensor are not."""
    storage, itemsize = tensor.storage, tensor.dtype.bits // 8
    start, end = places[storage.key]
    if not storage.nbytes <= end - start < storage.nbytes + storage.type.itemsize:
        raise Malformed(f"{key[:80]}: its storage takes {end - start} bytes, the pickle says {storage.nbytes}")
    elements = _product(tensor.shape, end - start)
    if elements and (tensor.offset + elements) * itemsize > storage.nbytes:
        raise Malformed(f"{key[:80]}: reaches beyond its storage")
    order = dense_order(tensor.shape, tensor.stride) if elements else ()
    if order is None:
        raise Malformed(f"{key[:80]}: is a view with gaps or repeats in a larger tensor")
    start += tensor.offset * itemsize if elements else 0
    return TensorInfo(key, tensor.dtype, tensor.shape, name, start, start + elements * itemsize, order or None)


def _product(shape: tuple[int, ...], limit: int) -> int:
    """Elements of `shape`; a number beyond what `limit` bytes hold is not multiplied up."""
    if 0 in shape:
        return 0
    elements = 1
    for length in shape:
        elements *= length
        if elements > limit:
            return elements
    return elements


def dense_order(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions from outermost to innermost as the bytes lie; `()` for row-major, None for gaps or repeats."""
    long = sorted((axis for axis, length in enumerate(shape) if length > 1), key=lambda axis: (-stride[axis], axis))
    step = 1
    for axis in reversed(long):
        if stride[axis] != step:
            return None
        step *= shape[axis]
    if long == sorted(long):
        return ()
    return (*(axis for axis, length in enumerate(shape) if length == 1), *long)
