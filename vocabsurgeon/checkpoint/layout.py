"""Tensor edits → what each weight file of the result holds, byte for byte. Decides every offset; does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from vocabsurgeon.checkpoint.edits import (
    CopyTensor,
    DropTensor,
    MeanOfTensors,
    ReplaceTensor,
    TensorEdit,
    WriteRows,
    WriteValues,
)
from vocabsurgeon.checkpoint.header import Header, TensorInfo, encode_header, validate
from vocabsurgeon.checkpoint.shards import Shards, safetensors_name
from vocabsurgeon.errors import CheckpointError

NEW_SHARD = "model-untied-head.safetensors"


@dataclass(frozen=True)
class Segment:
    """One tensor of the result: where it will lie, and the source tensor (with an edit of its values) it comes from."""

    info: TensorInfo
    source: TensorInfo
    edit: WriteRows | MeanOfTensors | WriteValues | CopyTensor | None = None


@dataclass(frozen=True)
class ShardLayout:
    """One weight file of the result. `copy_of` names the source file where the bytes are the same from end to end."""

    name: str
    header: bytes
    segments: tuple[Segment, ...]
    """In data order, which is the order of writing."""
    copy_of: str | None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.segments[-1].info.end if self.segments else len(self.header)


def lay_out(
    shards: Shards, edits: Iterable[TensorEdit], *, new_shard: bool = False, convert: bool = True
) -> tuple[ShardLayout, ...]:
    """The weight files of the result, in index order.

    A copied tensor follows its source in the same file; with `new_shard` it gets a file of its own, so that every
    other file can be linked. A file whose last tensor is dropped disappears. Header order, metadata and the alignment
    of every tensor are kept. Files of torch's own format become safetensors of the same division, but without `convert`
    (for a result that changes nothing). Raises `CheckpointError` for an edit of a tensor that does not exist, for two
    edits of one tensor, for a copy under a name that is taken and for two files that would bear one name; `ValueError`
    for values that do not fill the tensor (faulty plan).
    """
    by_key = _by_key(shards, edits)
    layouts = []
    for name, header in shards.headers.items():
        header = replace(header, pickled=header.pickled and convert)
        name = safetensors_name(name) if header.pickled else name
        layout = _shard(_name(shards, name, by_key, new_shard), header, by_key, new_shard, shards.tensors)
        if layout.segments or not header.tensors:
            layouts.append(layout)
    if new_shard:
        layouts += _extra_shard(shards, by_key)
    _require_own_names(layouts)
    return tuple(layouts)


def _require_own_names(layouts: Sequence[ShardLayout]) -> None:
    """Two files of torch's format may come to one name as safetensors."""
    names = [layout.name for layout in layouts]
    for name in names:
        if names.count(name) > 1:
            raise CheckpointError("would be the name of two weight files of the result", where=name)


def weight_map(layouts: Sequence[ShardLayout]) -> dict[str, str]:
    """Tensor key → file name over all files of the result."""
    return {segment.info.key: layout.name for layout in layouts for segment in layout.segments}


def total_size(layouts: Sequence[ShardLayout]) -> int:
    """Bytes of tensor data over all files of the result."""
    return sum(segment.info.nbytes for layout in layouts for segment in layout.segments)


_Edits = Mapping[str, tuple[TensorEdit, ...]]
"""Stored key → at most one edit of that tensor, and the copies made of it."""


def _by_key(shards: Shards, edits: Iterable[TensorEdit]) -> _Edits:
    """Edits by the source tensor they concern (a copy by the tensor copied)."""
    by_key: dict[str, tuple[TensorEdit, ...]] = {}
    taken = set(shards.tensors)
    for edit in edits:
        key = edit.source if isinstance(edit, CopyTensor) else edit.key
        if key not in shards.tensors:
            raise CheckpointError("is to be edited but is not stored", where=key)
        before = by_key.get(key, ())
        if before and not all(isinstance(other, CopyTensor) for other in (*before, edit)):
            raise CheckpointError("is to be edited twice", where=key)
        if isinstance(edit, CopyTensor) and edit.key in taken:
            raise CheckpointError("is to be stored as a copy but is stored already", where=edit.key)
        if isinstance(edit, WriteRows):
            _check_rows(edit, shards.tensors[key])
        if isinstance(edit, ReplaceTensor | MeanOfTensors):
            _check_sources(edit, shards)
        if isinstance(edit, WriteValues) and len(edit.values) != prod(shards.tensors[key].shape):
            raise ValueError(f"{key}: {len(edit.values)} values do not fill {list(shards.tensors[key].shape)}")
        if isinstance(edit, CopyTensor):
            taken.add(edit.key)
        by_key[key] = (*before, edit)
    return by_key


def _copies(edits: _Edits) -> list[CopyTensor]:
    return [edit for group in edits.values() for edit in group if isinstance(edit, CopyTensor)]


def _check_sources(edit: ReplaceTensor | MeanOfTensors, shards: Shards) -> None:
    sources = edit.sources if isinstance(edit, MeanOfTensors) else (edit.source,)
    for source in sources:
        if source not in shards.tensors:
            raise CheckpointError("is to be read but is not stored", where=source)
        if isinstance(edit, MeanOfTensors) and shards.tensors[source].shape != shards.tensors[edit.key].shape:
            raise ValueError(f"{edit.key} and {source} have different shapes")


def _check_rows(edit: WriteRows, info: TensorInfo) -> None:
    """Each row named once and inside the result, none of the old ones cut off, none of the new ones forgotten."""
    named = {number for number, _ in edit.rows}
    old = info.shape[edit.axis] if 0 <= edit.axis < len(info.shape) else edit.size + 1
    once = len(named) == len(edit.rows) and all(0 <= number < edit.size for number in named)
    if not once or edit.size < old or not named.issuperset(range(old, edit.size)):
        raise ValueError(f"{edit.key}: rows of {list(info.shape)} do not become {edit.size} along axis {edit.axis}")


def _name(shards: Shards, name: str, edits: _Edits, new_shard: bool) -> str:
    """A lone model.safetensors is renamed when it gets company: readers take a file of that name for everything."""
    if new_shard and shards.index is None and _copies(edits):
        return "model-00001-of-00002.safetensors"
    return name


def _shard(name: str, header: Header, edits: _Edits, new_shard: bool, tensors: Mapping[str, TensorInfo]) -> ShardLayout:
    segments = [
        segment
        for info in header.tensors
        for segment in _segments(name, info, edits.get(info.key, ()), new_shard, tensors)
    ]
    edited = any(segment.edit for segment in segments)
    kept_whole = tuple(segment.source for segment in segments) == header.tensors
    if kept_whole and not edited and not header.pickled:
        kept = tuple(Segment(info, info) for info in header.in_data_order())
        return ShardLayout(name, b"", kept, header.file)
    return _place(name, segments, header.metadata)


def _segments(
    name: str, info: TensorInfo, edits: Sequence[TensorEdit], new_shard: bool, tensors: Mapping[str, TensorInfo]
) -> list[Segment]:
    """What becomes of one source tensor: itself, rewritten, or nothing; then its copies."""
    copies = [edit for edit in edits if isinstance(edit, CopyTensor) and not new_shard]
    edited = next((edit for edit in edits if not isinstance(edit, CopyTensor)), None)
    return [
        *_own(name, info, edited, tensors),
        *(Segment(replace(info, key=edit.key, file=name), info, _scaled(edit)) for edit in copies),
    ]


def _scaled(copy: CopyTensor) -> CopyTensor | None:
    """A copy whose values have to be computed; None where it is bytes."""
    return copy if copy.factor != 1.0 else None


def _own(name: str, info: TensorInfo, edit: TensorEdit | None, tensors: Mapping[str, TensorInfo]) -> list[Segment]:
    own = Segment(replace(info, file=name), info)
    if isinstance(edit, DropTensor):
        return []
    if isinstance(edit, WriteRows):
        shape = (*info.shape[: edit.axis], edit.size, *info.shape[edit.axis + 1 :])
        return [Segment(replace(info, shape=shape, file=name), info, edit)]
    if isinstance(edit, ReplaceTensor):
        other = tensors[edit.source]
        return [Segment(replace(own.info, dtype=other.dtype, shape=other.shape), other)]
    if isinstance(edit, MeanOfTensors | WriteValues):
        return [replace(own, edit=edit)]
    return [own]


def _extra_shard(shards: Shards, edits: _Edits) -> list[ShardLayout]:
    copies = [
        Segment(replace(shards.tensors[edit.source], key=edit.key), shards.tensors[edit.source], _scaled(edit))
        for edit in _copies(edits)
    ]
    if not copies:
        return []
    name = "model-00002-of-00002.safetensors" if shards.index is None else _free_name(shards)
    first = next(iter(shards.headers.values()))
    return [_place(name, copies, first.metadata)]


def _free_name(shards: Shards) -> str:
    """`NEW_SHARD`, numbered where an earlier run took the name."""
    taken, name, number = set(shards.headers), NEW_SHARD, 1
    while name in taken:
        number += 1
        name = NEW_SHARD.replace(".", f"-{number}.")
    return name


def _place(name: str, segments: Sequence[Segment], metadata: Mapping[str, str] | None) -> ShardLayout:
    """Give every segment its offset. The source's data order is kept unless that would break an alignment."""
    ordered = sorted(segments, key=lambda segment: (segment.info.start, segment.info.end))
    if not _aligned(ordered):
        # What the format's reference writer does: wider elements first, so that each offset is a multiple of its width.
        ordered = sorted(ordered, key=lambda segment: -segment.info.dtype.bits)
    placed, position = {}, 0
    for segment in ordered:
        end = position + segment.info.dtype.size_of(prod(segment.info.shape))
        info = replace(segment.info, file=name, start=position, end=end, order=None)
        placed[segment.info.key] = replace(segment, info=info)
        position = end
    header = encode_header([placed[segment.info.key].info for segment in segments], metadata)
    return _shifted(name, header, [placed[segment.info.key] for segment in ordered], metadata, position)


def _shifted(
    name: str, header: bytes, segments: Sequence[Segment], metadata: Mapping[str, str] | None, data_bytes: int
) -> ShardLayout:
    """Offsets from the data's beginning → offsets in the file, held to the same rules as what we read."""
    absolute = tuple(
        replace(s, info=replace(s.info, start=s.info.start + len(header), end=s.info.end + len(header)))
        for s in segments
    )
    size = len(header) + data_bytes
    validate(Header(name, tuple(s.info for s in absolute), metadata, len(header), size))
    return ShardLayout(name, header, absolute, None)


def _aligned(segments: Sequence[Segment]) -> bool:
    position = 0
    for segment in segments:
        if segment.info.dtype.bits % 8 == 0 and position % (segment.info.dtype.bits // 8):
            return False
        position += segment.info.dtype.size_of(prod(segment.info.shape))
    return True
