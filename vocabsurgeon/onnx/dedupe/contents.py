"""Which bytes of an export are kept: one layout for each content, chosen by who reads it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vocabsurgeon.onnx.duplicates import Duplicate
from vocabsurgeon.onnx.tensors import StoredTensor

Place = tuple[str, int, int]
TURNABLE = ("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "Transpose")
"""Operators that read a table's transpose as well as the table."""


@dataclass(frozen=True)
class Contents:
    """`same`: place → the tensor whose equal bytes are kept for it. `upright`: place of such a tensor → the tensor it
    is the transpose of, which is kept instead."""

    same: Mapping[Place, StoredTensor]
    upright: Mapping[Place, StoredTensor]

    def root(self, tensor: StoredTensor) -> StoredTensor:
        """The tensor with the same bytes that is kept."""
        return self.same.get(tensor.place, tensor)

    def transposed(self, tensor: StoredTensor) -> StoredTensor | None:
        """The kept tensor whose transpose `tensor` is; None where it is stored as it is."""
        return self.upright.get(self.root(tensor).place)


def contents_of(tensors: Sequence[StoredTensor], duplicates: Sequence[Duplicate]) -> Contents:
    """What to keep of `tensors`, whose `duplicates` are known.

    Of two layouts the one is kept that more operators need as it is (a lookup reads rows; a product reads either way),
    then the one with more readers, then the first.
    """
    same = {
        tensor.place: duplicate.tensors[0]
        for duplicate in duplicates
        if duplicate.relation == "equal"
        for tensor in duplicate.tensors
    }
    readers: dict[Place, list[str]] = {}
    for tensor in tensors:
        readers.setdefault(same.get(tensor.place, tensor).place, []).extend(tensor.uses)

    def needed(tensor: StoredTensor) -> tuple[int, int]:
        uses = readers.get(tensor.place, [])
        return sum(op not in TURNABLE for op in uses), len(uses)

    upright = {}
    for duplicate in duplicates:
        if duplicate.relation == "transposed" and all(len(tensor.shape) == 2 for tensor in duplicate.tensors):
            kept = max(duplicate.tensors, key=needed)
            upright.update({tensor.place: kept for tensor in duplicate.tensors if tensor is not kept})
    return Contents(same, upright)
