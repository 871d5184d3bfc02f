"""Which tensors of a graph are quantized matrices, and by which scales: read off the operators that use them.

A table of operators; what none of them reads, or what is packed across rows, is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from vocabsurgeon.onnx.files import OnnxFile
from vocabsurgeon.onnx.graph import NodeEntry
from vocabsurgeon.onnx.matrices import Grid, QuantizedMatrix
from vocabsurgeon.onnx.tensors import StoredTensor

_INTEGERS = {"INT8": True, "UINT8": False, "INT4": True, "UINT4": False, "INT2": True, "UINT2": False}
"""Element type → signed."""
_PASSES = ("Gather", "Identity", "Reshape", "Transpose")
"""Operators between a quantized table and the `DequantizeLinear` of what was taken from it."""


def quantized_matrices(graph: OnnxFile) -> list[QuantizedMatrix]:
    """The quantized matrices of `graph`, one for each tensor."""
    names = _Names.of(graph)
    found: dict[tuple[str, int, int], QuantizedMatrix] = {}
    for node in graph.nodes:
        read = _READERS.get(node.op_type)
        matrix = None if read is None else read(node, names)
        if matrix is not None:
            found.setdefault(matrix.tensor.place, matrix)
    return list(found.values())


@dataclass(frozen=True)
class _Names:
    """Tensors, and nodes by what they give and by what they read."""

    tensors: Mapping[str, StoredTensor]
    producers: Mapping[str, NodeEntry]
    readers: Mapping[str, list[NodeEntry]]

    @classmethod
    def of(cls, graph: OnnxFile) -> _Names:
        readers: dict[str, list[NodeEntry]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                readers.setdefault(name, []).append(node)
        producers = {name: node for node in graph.nodes for name in node.outputs}
        return cls({tensor.name: tensor for tensor in graph.tensors}, producers, readers)

    def tensor(self, node: NodeEntry, index: int) -> StoredTensor | None:
        """The tensor that input `index` of `node` is; None for an absent input or a computed one."""
        return self.tensors.get(node.inputs[index]) if index < len(node.inputs) else None

    def is_given(self, node: NodeEntry, index: int) -> bool:
        return index < len(node.inputs) and bool(node.inputs[index])


def _dequantized(node: NodeEntry, names: _Names) -> QuantizedMatrix | None:
    """`DequantizeLinear(x, scale, zero point)`, of a tensor or of what was looked up in one."""
    axis, block = node.integers.get("axis", 1), node.integers.get("block_size", 0)
    tensor = names.tensor(node, 0)
    if tensor is not None:
        return _linear(names, node, tensor, (1, 2), axis, block)
    before = names.producers.get(node.inputs[0]) if node.inputs else None
    tensor = names.tensor(before, 0) if before is not None and before.op_type in _PASSES else None
    scales = names.tensor(node, 1)
    if tensor is None or scales is None or prod(scales.shape) != 1:
        return None
    return _linear(names, node, tensor, (1, 2), 1, 0)


def _product(weight: int, scale: int, zero: int) -> Callable[[NodeEntry, _Names], QuantizedMatrix | None]:
    """Products that take the weight's scale and zero point as inputs of these numbers."""

    def read(node: NodeEntry, names: _Names) -> QuantizedMatrix | None:
        tensor = names.tensor(node, weight)
        return None if tensor is None else _linear(names, node, tensor, (scale, zero), 1, 0)

    return read


def _integer_product(node: NodeEntry, names: _Names) -> QuantizedMatrix | None:
    """`MatMulInteger(a, weight, zero points of both)`, scaled behind a `Cast` by `Mul(scale of a, scale of weight)`."""
    tensor = names.tensor(node, 1)
    scales = next(_scales_behind(node, names), None)
    if tensor is None or scales is None or (names.is_given(node, 3) and names.tensor(node, 3) is None):
        return None
    return _matrix(tensor, scales, names.tensor(node, 3), 1, 0)


def _scales_behind(node: NodeEntry, names: _Names) -> Iterator[StoredTensor]:
    for cast in names.readers.get(node.outputs[0], ()):
        for multiply in names.readers.get(cast.outputs[0], ()) if cast.op_type == "Cast" else ():
            for name in multiply.inputs if multiply.op_type == "Mul" else ():
                factor = names.producers.get(name)
                if factor is not None and factor.op_type == "Mul":
                    yield from (names.tensors[value] for value in reversed(factor.inputs) if value in names.tensors)


def _block_product(node: NodeEntry, names: _Names) -> QuantizedMatrix | None:
    """`MatMulNBits(a, weight [N, blocks, bytes], scales, zero points)`: rows of the transposed weight, padded."""
    tensor, scales = names.tensor(node, 1), names.tensor(node, 2)
    rows, columns = node.integers.get("N", 0), node.integers.get("K", 0)
    bits, block = node.integers.get("bits", 4), node.integers.get("block_size", 0)
    if tensor is None or scales is None or not (rows and columns and block) or bits not in (2, 4, 8):
        return None
    if names.is_given(node, 3) and names.tensor(node, 3) is None:
        return None
    blocks = -(-columns // block)
    row_bytes = blocks * block * bits // 8
    grid = Grid(1, block, rows, blocks)
    return _checked(
        QuantizedMatrix(
            tensor, rows, columns, bits, False, row_bytes, grid, scales, names.tensor(node, 3), 2 ** (bits - 1), True
        )
    )


def _block_lookup(node: NodeEntry, names: _Names) -> QuantizedMatrix | None:
    """`GatherBlockQuantized(table, ids, scales, zero points)` along the rows of a matrix."""
    tensor, scales = names.tensor(node, 0), names.tensor(node, 2)
    block, axis = node.integers.get("block_size", 128), node.integers.get("quantize_axis", 1)
    if tensor is None or scales is None or len(tensor.shape) != 2 or axis not in (1, -1):
        return None
    if names.is_given(node, 3) and names.tensor(node, 3) is None:
        return None
    signed = _INTEGERS.get(tensor.element.name)
    packed = tensor.element.name == "UINT8"
    bits = node.integers.get("bits", 4) if packed else tensor.element.bits
    if signed is None or bits not in (2, 4, 8):
        return None
    rows, columns = tensor.shape[0], tensor.shape[1] * (8 // bits if packed else 1)
    grid = Grid(1, block, rows, -(-columns // block))
    zero = 2 ** (bits - 1) if packed else 0
    zeros = names.tensor(node, 3)
    return _checked(
        QuantizedMatrix(tensor, rows, columns, bits, signed, columns * bits // 8, grid, scales, zeros, zero, packed)
    )


def _linear(
    names: _Names, node: NodeEntry, tensor: StoredTensor, at: tuple[int, int], axis: int, block: int
) -> QuantizedMatrix | None:
    """A matrix whose scales and zero points are the inputs `at` of `node`."""
    scales, zeros = (names.tensor(node, index) for index in at)
    if scales is None or (zeros is None and names.is_given(node, at[1])):
        return None
    return _matrix(tensor, scales, zeros, axis, block)


def _matrix(
    tensor: StoredTensor, scales: StoredTensor, zeros: StoredTensor | None, axis: int, block: int
) -> QuantizedMatrix | None:
    """A plain matrix with one scale, one for each row or column (`axis`), or one for each `block` along `axis`."""
    signed = _INTEGERS.get(tensor.element.name)
    if signed is None or len(tensor.shape) != 2 or axis not in (-2, -1, 0, 1):
        return None
    rows, columns = tensor.shape
    along_rows = axis in (0, -2)
    if prod(scales.shape) == 1:
        grid = Grid(rows, columns, 1, 1)
    elif block:
        height, width = (block, 1) if along_rows else (1, block)
        grid = Grid(height, width, -(-rows // height), -(-columns // width))
    else:
        grid = Grid(1, columns, rows, 1) if along_rows else Grid(rows, 1, 1, columns)
    bits = tensor.element.bits
    return _checked(QuantizedMatrix(tensor, rows, columns, bits, signed, columns * bits // 8, grid, scales, zeros))


def _checked(matrix: QuantizedMatrix) -> QuantizedMatrix | None:
    """None where sizes contradict each other, or a row does not start at a byte."""
    count = matrix.grid.rows * matrix.grid.columns
    fits = (
        matrix.row_bytes * 8 >= matrix.columns * matrix.bits and matrix.row_bytes * matrix.rows == matrix.tensor.nbytes
    )
    if not fits or prod(matrix.scales.shape) != count or matrix.scales.element.numpy is None:
        return None
    zeros = matrix.zeros
    if zeros is None or zeros.element.floating:
        return matrix if zeros is None or prod(zeros.shape) == count else None
    by_row = matrix.grid.rows * -(-matrix.grid.columns * matrix.bits // 8)
    whole = -(-count * zeros.element.bits // 8)
    return matrix if zeros.nbytes == (by_row if matrix.zeros_by_row else whole) else None


_READERS: Mapping[str, Callable[[NodeEntry, _Names], QuantizedMatrix | None]] = {
    "DequantizeLinear": _dequantized,
    "MatMulInteger": _integer_product,
    "DynamicQuantizeMatMul": _product(1, 2, 3),
    "MatMulIntegerToFloat": _product(1, 3, 5),
    "QLinearMatMul": _product(3, 4, 5),
    "MatMulNBits": _block_product,
    "GatherBlockQuantized": _block_lookup,
}
