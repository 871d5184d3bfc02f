"""The data file of a deduplicated export: where each content lies in it, and writing it in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vocabsurgeon.checkpoint.progress import Progress
from vocabsurgeon.checkpoint.rows import BLOCK_BYTES
from vocabsurgeon.checkpoint.write_back import PART_BYTES, begin_write_back
from vocabsurgeon.onnx.data_file import alignment
from vocabsurgeon.onnx.dedupe.contents import Place
from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.tensors import StoredTensor

if TYPE_CHECKING:
    import onnx

Layout = Mapping[Place, int]


def lay_out(tensors: Iterable[StoredTensor]) -> dict[Place, int]:
    """Place of each tensor → its offset in the data file, in file order; a place counts once.

    Ordered by the power of two that divides the size, largest first: each starts at a multiple of it, without gaps.
    """
    places: dict[Place, int] = {}
    distinct = {tensor.place: tensor for tensor in tensors}.values()
    offset = 0
    for tensor in sorted(distinct, key=lambda tensor: -alignment(tensor.nbytes)):
        places[tensor.place] = offset
        offset += tensor.nbytes
    return places


def write_data(path: Path, tensors: Iterable[StoredTensor], layout: Layout, progress: Progress) -> None:
    """Write the tensors of `layout` to `path`, block by block; memory does not grow with them."""
    known = {tensor.place: tensor for tensor in tensors}
    total = sum(place[2] for place in layout)
    done = pending = 0
    with OpenFiles() as files, open(path, "wb", buffering=0) as target:
        for place in layout:
            tensor = known[place]
            for start in range(0, tensor.nbytes, BLOCK_BYTES):
                count = min(BLOCK_BYTES, tensor.nbytes - start)
                target.write(tensor.read(files[tensor], start, count).data)
                done, pending = done + count, pending + count
                if pending >= PART_BYTES:
                    begin_write_back(target.fileno(), pending)
                    pending = 0
                progress("write", done, total)


def point(tensor: onnx.TensorProto, data: str, offset: int, nbytes: int) -> None:
    """Let `tensor` refer to `nbytes` bytes at `offset` of the file `data`; an empty tensor holds its nothing itself."""
    import onnx

    del tensor.external_data[:]
    if not nbytes:
        tensor.data_location = onnx.TensorProto.DEFAULT
        tensor.raw_data = b""
        return
    for key, value in (("location", data), ("offset", str(offset)), ("length", str(nbytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
