"""Norms are those of the rows asked for, however many: they are measured a few at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.faults.checkpoints import checkpoint, tensor_of
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery import norms
from vocabsurgeon.surgery.norms import untrained_rows, zero_rows


def test_each_row_of_a_long_table_is_measured(tmp_path: Path) -> None:
    rows = np.ones((3 * norms._ROWS + 5, 2), np.float32)
    odd = [0, norms._ROWS, 2 * norms._ROWS + 1, 3 * norms._ROWS + 4]
    rows[odd] = 0
    table = Checkpoint.open(checkpoint(tmp_path / "m", {"a": tensor_of(rows)})).rows("a")
    everything = range(len(rows))
    assert zero_rows(table, everything) == untrained_rows(table, everything) == tuple(odd)
    assert zero_rows(table, list(reversed(everything))) == tuple(reversed(odd))
