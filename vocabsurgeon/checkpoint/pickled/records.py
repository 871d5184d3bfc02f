"""What a weights pickle may name: the closed table of its globals, each a plain record or function of this module.

`torch.load(weights_only=True)` allows the same and more; nothing outside this table is ever looked up or imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from vocabsurgeon.checkpoint.dtypes import TABLE, DType, by_name


class Malformed(Exception):
    """The pickle is not what torch writes for a state dict; the reader turns this into a `HeaderError`."""


@dataclass(frozen=True)
class StorageType:
    """A storage class of torch. `dtype` is None for an untyped storage, which counts bytes."""

    dtype: DType | None

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.bits // 8 if self.dtype else 1


@dataclass(frozen=True)
class Storage:
    """A stretch of bytes under `key`: `size` elements of `type`."""

    key: str
    type: StorageType
    size: int

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.type.itemsize


@dataclass(frozen=True)
class PickledTensor:
    """A tensor as a view of a storage; `offset` and `stride` count elements of `dtype`."""

    storage: Storage
    dtype: DType
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class Callee:
    """A function that a pickle may call, on records alone. Raises `Malformed` for arguments of the wrong kind."""

    call: Callable[[tuple[Any, ...]], Any]


@dataclass(frozen=True)
class Unsupported:
    """What torch knows and safetensors cannot hold as it is; named only to say so."""

    what: str


@cache
def allowed() -> dict[str, Any]:
    """`module.name` → what stands for it."""
    rebuilds = {f"torch._utils.{name}": callee for name, callee in _REBUILDS.items()}
    storages = {f"torch.{name}Storage": _storage_type(name, dtype) for name, dtype in _STORAGES.items()}
    cuda = {f"torch.cuda.{name}Storage": _storage_type(name, dtype) for name, dtype in _STORAGES.items()}
    dtypes = {f"torch.{row.torch}": row for row in TABLE if row.torch and row.numpy is not None}
    refused = {name: Unsupported(what) for name, what in _REFUSED.items()}
    untyped = {"torch.storage.UntypedStorage": StorageType(None), "torch.UntypedStorage": StorageType(None)}
    ordered = {"collections.OrderedDict": Callee(_ordered_dict)}
    return {**rebuilds, **storages, **cuda, **dtypes, **refused, **untyped, **ordered}


_STORAGES: dict[str, str | None] = {
    "Double": "F64",
    "Float": "F32",
    "Half": "F16",
    "BFloat16": "BF16",
    "Long": "I64",
    "Int": "I32",
    "Short": "I16",
    "Char": "I8",
    "Byte": "U8",
    "Bool": "BOOL",
    "ComplexFloat": "C64",
    "ComplexDouble": None,
    "QInt8": None,
    "QUInt8": None,
    "QInt32": None,
    "QUInt4x2": None,
    "QUInt2x4": None,
}
"""Storage class (without its suffix) → safetensors dtype, None where there is none."""

_REFUSED = {
    "torch._utils._rebuild_qtensor": "a quantized tensor",
    "torch._utils._rebuild_sparse_tensor": "a sparse tensor",
    "torch.serialization._get_layout": "a sparse tensor",
    "torch._utils._rebuild_nested_tensor": "a nested tensor",
    "torch._utils._rebuild_meta_tensor_no_storage": "a tensor without data",
    "torch._utils._rebuild_wrapper_subclass": "a tensor subclass",
    "torch._tensor._rebuild_from_type_v2": "a tensor subclass",
    "torch.complex128": "a tensor of 128-bit complex numbers",
}


def _storage_type(name: str, dtype: str | None) -> StorageType | Unsupported:
    return StorageType(by_name()[dtype]) if dtype else Unsupported(f"a tensor of {name} elements")


def _ordered_dict(arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """Empty in pickles of Python 3, a list of pairs in older ones."""
    if not arguments:
        return {}
    pairs = arguments[0]
    if len(arguments) != 1 or not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise Malformed("makes a dictionary of something else than pairs")
    return dict(pairs)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)


def _rebuild_v2(arguments: tuple[Any, ...]) -> PickledTensor:
    """`(storage, offset, size, stride, …)`: the dtype is the storage's."""
    storage = arguments[0] if arguments else None
    if not isinstance(storage, Storage) or storage.type.dtype is None:
        raise Malformed("builds a tensor on something else than a typed storage")
    return _tensor(storage, storage.type.dtype, arguments, 6)


def _rebuild_v3(arguments: tuple[Any, ...]) -> PickledTensor:
    """`(storage, offset, size, stride, requires_grad, hooks, dtype, …)`, for dtypes without a storage class."""
    storage, dtype = (arguments[0], arguments[6]) if len(arguments) > 6 else (None, None)
    if not isinstance(storage, Storage) or not isinstance(dtype, DType):
        raise Malformed("builds a tensor on something else than a storage and a dtype")
    return _tensor(storage, dtype, arguments, 7)


def _tensor(storage: Storage, dtype: DType, arguments: tuple[Any, ...], metadata: int) -> PickledTensor:
    """`metadata` is where a conjugate or negative bit would be told: values that the bytes alone do not hold."""
    offset, shape, stride = arguments[1:4] if len(arguments) >= 4 else (None, None, None)
    if not (_is_count(offset) and _counts(shape) and _counts(stride) and len(shape) == len(stride)):
        raise Malformed("builds a tensor of an impossible offset, shape or stride")
    if any(argument for argument in arguments[metadata:]):
        raise Malformed("builds a conjugated or negated view, whose values its bytes do not hold")
    return PickledTensor(storage, dtype, offset, shape, stride)


def _rebuild_parameter(arguments: tuple[Any, ...]) -> PickledTensor:
    if not arguments or not isinstance(arguments[0], PickledTensor):
        raise Malformed("builds a parameter of something else than a tensor")
    return arguments[0]


_LIMIT = 2**63


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LIMIT


def _counts(value: Any) -> bool:
    return isinstance(value, tuple) and all(_is_count(item) for item in value)


def storage_of(identifier: Any) -> Storage:
    """A persistent id, `("storage", type, key, location, size)`, as the storage it names.

    The old format adds a view of the storage, which no torch since 0.4 writes and which has to be None. Raises
    `Malformed` for anything else.
    """
    fields = identifier if isinstance(identifier, tuple) and len(identifier) in (5, 6) else (None,) * 5
    what, kind, key, _, size = fields[:5]
    if isinstance(kind, Unsupported):
        raise Malformed(f"holds {kind.what}, which safetensors cannot hold")
    if what != "storage" or not isinstance(kind, StorageType) or not isinstance(key, str) or not _is_count(size):
        raise Malformed("names a storage in a way that torch does not")
    if fields[5:] not in ((), (None,)):
        raise Malformed("names a view of a storage, as torch did before 0.4")
    return Storage(key, kind, size)


_REBUILDS = {
    "_rebuild_tensor": Callee(_rebuild_v2),
    "_rebuild_tensor_v2": Callee(_rebuild_v2),
    "_rebuild_tensor_v3": Callee(_rebuild_v3),
    "_rebuild_parameter": Callee(_rebuild_parameter),
    "_rebuild_parameter_with_state": Callee(_rebuild_parameter),
}
