"""What an export has to hold: the checkpoint's distinct parameters at the export's element type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.classes.float32_parameters import kept_in_float32
from vocabsurgeon.onnx.duplicates import find_duplicates
from vocabsurgeon.onnx.element_types import ElementType
from vocabsurgeon.onnx.tensors import StoredTensor, checkpoint_tensors

_FLOAT32 = ElementType("FLOAT", 32, None, True)


@dataclass(frozen=True)
class Expected:
    """`total` bytes, of which `widened` are there because some parameters stay in float32."""

    total: int
    widened: int


def expected_bytes(checkpoint: Checkpoint, element: ElementType, held: Iterable[StoredTensor] = ()) -> Expected:
    """Bytes of every stored tensor, floating ones at `element`'s width; reads values only to find copies.

    Two bit-equal tensors of rank 2 or more and equal shape count once. Where `held`, what the export holds, has in
    float32 what the model's class keeps in float32, or what the checkpoint does among narrower ones, that is needed.
    """
    named = checkpoint_tensors(checkpoint)
    tensors = list({(tensor.place, tensor.shape): tensor for tensor in named}.values())
    copies = _copies([tensor for tensor in tensors if len(tensor.shape) >= 2])
    distinct = [tensor for tensor in tensors if tensor.place not in copies]
    total = sum(_size(tensor, element) for tensor in distinct)
    widened = sum(
        tensor.elements * _FLOAT32.bits // 8 - _size(tensor, element)
        for tensor in _wide(checkpoint, distinct, element, held)
    )
    return Expected(total + widened, widened)


def _wide(
    checkpoint: Checkpoint, tensors: Sequence[StoredTensor], element: ElementType, held: Iterable[StoredTensor]
) -> list[StoredTensor]:
    """The tensors that stay in float32: for each the export holds one of its shape or its transpose's."""
    if element.bits >= _FLOAT32.bits:
        return []
    kept = kept_in_float32(checkpoint.config, element.name)
    mixed = export_element(tensors).bits < _FLOAT32.bits
    there = {tensor.place: tensor for tensor in held if tensor.element.name == "FLOAT"}
    shapes = Counter(tuple(sorted(tensor.shape)) for tensor in there.values())
    wide = []
    for tensor in tensors:
        shape = tuple(sorted(tensor.shape))
        stays = (kept is not None and kept.search(tensor.name)) or (mixed and tensor.element.name == "FLOAT")
        if stays and tensor.element.floating and shapes[shape] > 0:
            shapes[shape] -= 1
            wide.append(tensor)
    return wide


def export_element(tensors: Iterable[StoredTensor]) -> ElementType:
    """The floating element type of most numbers, the wider of two alike; float32 where there is none.

    Not that of most bytes: a T5 in float16 keeps a third of its numbers in float32, and those take as many bytes.
    """
    counts: dict[ElementType, int] = {}
    for tensor in tensors:
        if tensor.element.floating:
            counts[tensor.element] = counts.get(tensor.element, 0) + tensor.elements
    return max(counts, key=lambda element: (counts[element], element.bits), default=_FLOAT32)


def _copies(tensors: Sequence[StoredTensor]) -> set[tuple[str, int, int]]:
    """The places that repeat an earlier tensor of the same shape."""
    repeated = set()
    for duplicate in find_duplicates(tensors):
        if duplicate.relation == "equal":
            shapes: set[tuple[int, ...]] = set()
            for tensor in duplicate.tensors:
                if tensor.shape in shapes:
                    repeated.add(tensor.place)
                shapes.add(tensor.shape)
    return repeated


def _size(tensor: StoredTensor, element: ElementType) -> int:
    return (element if tensor.element.floating else tensor.element).size_of(tensor.elements)
