"""`dedupe` and transposed copies of any shape: what becomes a use of the table, and what stays and is said to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.onnx.exports import ROWS, WIDTH, model, value, write
from tests.onnx.test_dedupe import deduped
from vocabsurgeon.onnx.dedupe.operate import dedupe
from vocabsurgeon.onnx.dedupe.options import DedupeOptions

FLOAT = TensorProto.FLOAT


def test_a_square_copy_that_is_transposed_goes_too(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["y"])]
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (("a", numbers), ("b", numbers.T.copy()))]
    made = model(nodes, held, [value("x", FLOAT, ["n", WIDTH])], [value("y", FLOAT, ["n", WIDTH])])
    write(made, tmp_path / "in" / "model.onnx")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.before.stored == 2 * report.after.stored
    assert report.kept == ()


def test_a_transposed_copy_that_stays_is_not_called_merged(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((WIDTH, ROWS)).astype(np.float32)
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (("a", numbers[None]), ("b", numbers.T[None]))]
    nodes = [helper.make_node("Add", ["x", name], [f"{name}_out"]) for name in "ab"]
    results = [value(f"{name}_out", FLOAT, None) for name in "ab"]
    write(model(nodes, held, [value("x", FLOAT, [1, 1, 1])], results), tmp_path / "in" / "model.onnx")
    plan = dedupe(tmp_path / "in", tmp_path / "out", DedupeOptions(dry_run=True))
    assert [entry.relation for entry in plan.kept] == ["transposed"]
    report = dedupe(tmp_path / "in", tmp_path / "out")
    assert (report.changed, report.merged) == (False, ())
    assert [entry.relation for entry in report.kept] == ["transposed"]
    assert "cannot be merged" in report.summary
