"""`describe`: bytes and the JSON of `inspect`. Reads headers and JSON alone unless two tables are stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surgery.shelf import shelved, tensors_of
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint import rows
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.tie_state import TieState

TABLE = 64 * 16 * 4


@pytest.mark.parametrize(
    ("state", "tables", "saved", "added"),
    [
        (TieState.TIED, 1, 0, TABLE),
        (TieState.TIED_DUPLICATE, 2, TABLE, 0),
        (TieState.UNTIED, 2, TABLE, 0),
        (TieState.UNTIED_EQUAL, 2, TABLE, 0),
        (TieState.CONFLICT, 2, TABLE, 0),
        (TieState.HEADLESS, 1, 0, TABLE),
        (TieState.NO_HEAD, 1, 0, 0),
    ],
)
def test_bytes(state: TieState, tables: int, saved: int, added: int, tmp_path: Path) -> None:
    source = in_state(state, tmp_path / "source")
    found = describe(Checkpoint.open(source)).bytes
    assert (found.tables, found.saved_if_tied, found.added_if_untied) == (tables * TABLE, saved, added)
    assert found.total == sum(tensor.nbytes for tensor in tensors_of(source).values())


def test_no_weight_is_read_where_one_table_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "open_source", None)
    assert describe(Checkpoint.open(shelved())).tie.state is TieState.TIED


def test_duplicate_bytes_are_those_of_the_copy(tmp_path: Path) -> None:
    source = in_state(TieState.TIED_DUPLICATE, tmp_path / "source")
    assert describe(Checkpoint.open(source)).to_dict()["tie"]["duplicate_bytes"] == TABLE
