"""Ids against rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models.tokenizers import Folder, folder, word_level
from vocabsurgeon.vocabulary.accounting import account


def _files(ids: tuple[int, ...], tmp_path: Path) -> Folder:
    return folder(tmp_path / "t", word_level(ids=ids))


@pytest.mark.parametrize(
    ("rows", "ids", "spare", "without", "holes"),
    [
        (8, (0, 1, 2, 3, 4, 5, 6, 7), 0, (), ()),
        (10, (0, 1, 2, 3), 6, (), ()),
        (3, (0, 1, 2, 3, 4), 0, (3, 4), ()),
        (8, (0, 1, 2, 4, 7), 0, (), (3, 5, 6)),
        (5, (0, 2, 9), 0, (9,), (1, 3, 4, 5, 6, 7, 8)),
    ],
)
def test_figures(
    rows: int, ids: tuple[int, ...], spare: int, without: tuple[int, ...], holes: tuple[int, ...], tmp_path: Path
) -> None:
    found = account(rows, _files(ids, tmp_path).tokenizer)
    assert (found.rows, found.ids, found.max_id) == (rows, len(ids), max(ids))
    assert (found.spare_rows, found.ids_without_row, found.id_holes) == (spare, without, holes)


def test_added_tokens_count(tmp_path: Path) -> None:
    place = _files((0, 1, 2), tmp_path)
    document = json.loads((place.root / "tokenizer.json").read_text())
    document["added_tokens"].append({"id": 3, "content": "<a>", "special": True})
    (place.root / "tokenizer.json").write_text(json.dumps(document))
    assert account(3, Folder(place.root).tokenizer).ids_without_row == (3,)


def test_nothing_is_guessed_without_a_tokenizer() -> None:
    found = account(7, None)
    assert found.rows == 7 and {value for key, value in vars(found).items() if key != "rows"} == {None}
