"""What an export has to hold: the checkpoint's distinct parameters at the export's element type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.duplicates import find_duplicates
from vocabsurgeon.onnx.element_types import ElementType
from vocabsurgeon.onnx.tensors import StoredTensor, checkpoint_tensors


def expected_bytes(checkpoint: Checkpoint, element: ElementType) -> int:
    """Bytes of every stored tensor, floating ones at `element`'s width; reads values only to find copies.

    Two bit-equal tensors of rank 2 or more and equal shape count once.
    """
    named = checkpoint_tensors(checkpoint)
    tensors = list({(tensor.place, tensor.shape): tensor for tensor in named}.values())
    copies = _copies([tensor for tensor in tensors if len(tensor.shape) >= 2])
    return sum(_size(tensor, element) for tensor in tensors if tensor.place not in copies)


def export_element(tensors: Iterable[StoredTensor]) -> ElementType:
    """The floating element type that holds the most bytes; float32 where there is none."""
    sizes: dict[ElementType, int] = {}
    for tensor in tensors:
        if tensor.element.floating:
            sizes[tensor.element] = sizes.get(tensor.element, 0) + tensor.nbytes
    return max(sizes, key=lambda element: sizes[element], default=ElementType("FLOAT", 32, None, True))


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
    return (element if tensor.element.floating else tensor.element).size_of(prod(tensor.shape))
