"""What is to change in a folder, as frozen data: no I/O, no tokens, no tying. Plans are made of these."""

from __future__ import annotations

from dataclasses import dataclass

from vocabsurgeon.checkpoint.json_changes import JsonChange


@dataclass(frozen=True)
class MeanOf:
    """The mean of the source rows `ids`, accumulated in float64 and rounded once to the stored dtype.

    Repeated ids count as often as they occur. All-zero rows are dropped; if none is left, the mean of the rows in
    `otherwise` (half-open ranges, all-zero rows dropped there too) is taken.
    """

    ids: tuple[int, ...]
    otherwise: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class CopyOf:
    """The bits of source row `id`."""

    id: int


@dataclass(frozen=True)
class Normal:
    """Samples of N(0, std), reproducible from `seed` and the row's own number."""

    seed: int
    std: float


@dataclass(frozen=True)
class Zeros:
    """All bits zero."""


RowExpression = MeanOf | CopyOf | Normal | Zeros


@dataclass(frozen=True)
class WriteRows:
    """Give tensor `key` `size` rows along `axis`; the rows named in `rows` are written, other old rows keep their bits.

    Row numbers are positions along `axis` in the result; each row from the old size up must be named.
    """

    key: str
    axis: int
    size: int
    rows: tuple[tuple[int, RowExpression], ...]


@dataclass(frozen=True)
class CopyTensor:
    """Store tensor `source` a second time under the name `key`, after it in the same shard.

    Its bits; with another `factor` than 1 its values times that, in float64 and rounded once.
    """

    key: str
    source: str
    factor: float = 1.0


@dataclass(frozen=True)
class DropTensor:
    """Leave tensor `key` out of the result."""

    key: str


@dataclass(frozen=True)
class ReplaceTensor:
    """Give tensor `key` dtype, shape and bits of tensor `source`; its own content is gone."""

    key: str
    source: str


@dataclass(frozen=True)
class MeanOfTensors:
    """Give tensor `key` the mean of the two tensors `sources`, which have its shape.

    Element by element in float64, rounded once to the dtype of `key`.
    """

    key: str
    sources: tuple[str, str]


@dataclass(frozen=True)
class WriteValues:
    """Give the small tensor `key` the `values`, in order, each rounded once to its dtype; the shape stays."""

    key: str
    values: tuple[float, ...]


TensorEdit = WriteRows | CopyTensor | DropTensor | ReplaceTensor | MeanOfTensors | WriteValues


@dataclass(frozen=True)
class WriteFile:
    """Write `content` as file `name` (a path relative to the folder), replacing the source's."""

    name: str
    content: bytes
    changes: tuple[JsonChange, ...] | None = None
    """What an edited JSON file says differently from the source's; None where the file is written whole."""


@dataclass(frozen=True)
class OmitFile:
    """Do not carry file `name` along; `reason` is told to the user."""

    name: str
    reason: str


FileEdit = WriteFile | OmitFile
