"""Twins: tensors that hold one content at two precisions. A rounded copy is exact; a quantized one within a step.

A few numbers of each are compared first, then everything in blocks. What the bytes have in common is `duplicates`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.rows import BLOCK_BYTES
from vocabsurgeon.onnx.duplicates import Duplicate
from vocabsurgeon.onnx.files import SMALL_CONSTANT, OnnxFile
from vocabsurgeon.onnx.matrices import Array, FloatMatrix, Matrix, QuantizedMatrix, float_matrix
from vocabsurgeon.onnx.open_files import OpenFiles
from vocabsurgeon.onnx.quantized import quantized_matrices
from vocabsurgeon.onnx.tensors import StoredTensor

STEPS = 1.05
"""How many of a quantizer's steps a number may be off: half by rounding, up to one where the range was cut."""
_UNTOLD = 0.5
"""Most of the values' square sum that a quantized copy may miss; four levels for a normal distribution miss a third."""
_SIDE = 8


@dataclass(frozen=True)
class _Sampled:
    """A matrix and a grid of its numbers: values, steps, and the stored numbers of a floating one."""

    matrix: Matrix
    values: Array
    steps: Array


def find_twins(
    graphs: Iterable[OnnxFile],
    tensors: Sequence[StoredTensor],
    duplicates: Iterable[Duplicate],
    progress: Progress = silent,
) -> list[Duplicate]:
    """Groups of tensors that hold one content in several precisions, most wasteful first.

    The first of a group is the most precise, so that the others can be made from it. `relation` is `cast` (rounding the
    first gives the others, bit for bit) or `quantized` (each number within a step of the quantizer). Copies that
    `duplicates` tell of are left out. Tensors under a kilobyte are not looked at. `tensors` give the names.
    """
    repeated = {tensor.place for duplicate in duplicates for tensor in duplicate.tensors[1:]}
    named = {tensor.place: tensor for tensor in tensors if tensor.place not in repeated}
    chosen = [tensor for tensor in named.values() if tensor.nbytes >= SMALL_CONSTANT]
    quantized = [
        matrix
        for matrix in {m.tensor.place: m for graph in graphs for m in quantized_matrices(graph)}.values()
        if matrix.tensor.place in named and matrix.tensor.nbytes >= SMALL_CONSTANT
    ]
    floating = [matrix for tensor in chosen if (matrix := float_matrix(tensor)) is not None]
    floating.sort(key=lambda matrix: -matrix.tensor.element.bits)
    quantized.sort(key=lambda matrix: -matrix.bits)
    if not quantized and len({matrix.tensor.element.bits for matrix in floating}) < 2:
        return []
    with OpenFiles() as files, np.errstate(over="ignore", invalid="ignore"):  # what overflows is simply no twin
        cast = _groups([_sample(matrix, files) for matrix in floating], files, _is_cast, progress)
        firsts = [group[0] for group in cast]
        both = _groups([*firsts, *(_sample(matrix, files) for matrix in quantized)], files, _is_quantized, progress)
    found = [_twin(group, "cast", named) for group in cast if len(group) > 1]
    found += [_twin(group, "quantized", named) for group in both if len(group) > 1]
    return sorted(found, key=lambda twin: -twin.wasted)


def _twin(group: Sequence[_Sampled], relation: str, named: dict[tuple[str, int, int], StoredTensor]) -> Duplicate:
    return Duplicate(tuple(named[member.matrix.tensor.place] for member in group), relation)


Test = Callable[[_Sampled, _Sampled, bool, OpenFiles], bool]


def _groups(members: Sequence[_Sampled], files: OpenFiles, test: Test, progress: Progress) -> list[list[_Sampled]]:
    """Put each member to the first group whose first it is a twin of, as it is or transposed."""
    by_shape: dict[tuple[int, int], list[list[_Sampled]]] = {}
    groups: list[list[_Sampled]] = []
    for done, member in enumerate(members):
        progress("compare precisions", done, len(members))
        rows, columns = member.matrix.rows, member.matrix.columns
        home = _home(member, by_shape.get((rows, columns), ()), by_shape.get((columns, rows), ()), files, test)
        if home is not None:
            home.append(member)
            continue
        groups.append([member])
        by_shape.setdefault((rows, columns), []).append(groups[-1])
    return groups


def _home(
    member: _Sampled,
    upright: Sequence[list[_Sampled]],
    lying: Sequence[list[_Sampled]],
    files: OpenFiles,
    test: Test,
) -> list[_Sampled] | None:
    for turned, groups in ((False, upright), (True, lying)):
        for group in groups:
            first = group[0]
            if turned and not (
                isinstance(first.matrix, FloatMatrix) and first.matrix.is_matrix and member.matrix.is_matrix
            ):
                continue
            if test(first, member, turned, files):
                return group
    return None


def _is_cast(wide: _Sampled, narrow: _Sampled, turned: bool, files: OpenFiles) -> bool:
    """Whether rounding `wide` to the type of `narrow` gives `narrow`, bit for bit (any NaN is a NaN)."""
    a, b = wide.matrix, narrow.matrix
    assert isinstance(a, FloatMatrix) and isinstance(b, FloatMatrix)
    if a.tensor.element.bits <= b.tensor.element.bits:
        return False
    dtype = b.tensor.element.numpy
    sample = wide.values.T if turned else wide.values

    def same(first: Array, second: Array) -> bool:
        rounded = first.astype(dtype)
        return bool(np.array_equal(rounded, second) or np.array_equal(rounded, second, equal_nan=True))

    return same(sample, narrow.values.astype(dtype)) and all(
        same(a.stored(start, stop, files, turned), b.stored(start, stop, files)) for start, stop in _blocks(b)
    )


def _is_quantized(first: _Sampled, second: _Sampled, turned: bool, files: OpenFiles) -> bool:
    """Whether each number of `second`, a quantized matrix, is within a step of `first`'s."""
    if not isinstance(second.matrix, QuantizedMatrix):
        return False
    slack = max(first.matrix.slack, second.matrix.slack)

    def close(values: Array, steps: Array, others: Array, their_steps: Array) -> bool:
        allowed = STEPS * (steps + their_steps) + slack * np.abs(values)
        return bool(((np.abs(values - others) <= allowed) & np.isfinite(allowed)).all())

    values, steps = (first.values.T, first.steps.T) if turned else (first.values, first.steps)
    return (
        _tells(values, second.values)
        and close(values.astype(np.float32), steps, second.values, second.steps)
        and all(
            close(*first.matrix.numbers(start, stop, files, turned), *second.matrix.numbers(start, stop, files))
            for start, stop in _blocks(second.matrix)
        )
    )


def _tells(values: Array, quantized: Array) -> bool:
    """Whether `quantized` tells anything of `values`: steps wider than the values are near all of them and none."""
    left = float(np.square(values.astype(np.float32) - quantized).sum())
    return left <= _UNTOLD * float(np.square(values.astype(np.float32)).sum())


def _blocks(matrix: Matrix) -> Iterable[tuple[int, int]]:
    step = max(1, BLOCK_BYTES // 8 // matrix.columns)
    return ((start, min(start + step, matrix.rows)) for start in range(0, matrix.rows, step))


def _sample(matrix: Matrix, files: OpenFiles) -> _Sampled:
    """A grid of `_SIDE` × `_SIDE` numbers, the same places for a matrix and, turned, for its transpose."""
    rows = np.linspace(0, matrix.rows - 1, _SIDE).astype(np.int64)
    columns = np.linspace(0, matrix.columns - 1, _SIDE).astype(np.int64)
    values, steps = [], []
    for row in rows:
        taken, step = matrix.numbers(int(row), int(row) + 1, files)
        values.append(taken[0, columns])
        steps.append(np.broadcast_to(step, taken.shape)[0, columns])
    return _Sampled(matrix, np.stack(values), np.stack(steps))
