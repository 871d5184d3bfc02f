"""`FilesCarried`: every other file is there byte for byte, what was left out is not, nothing else appeared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.promises.pairs import Pair
from vocabsurgeon.surgery.promises import FilesCarried


@pytest.mark.parametrize("operation", ["extend", "tie", "untie"])
def test_holds_of_an_honest_result(operation: str, tmp_path: Path) -> None:
    assert Pair(operation, FilesCarried, tmp_path).holds()


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file changed": (lambda out: (out / "generation_config.json").write_text("{}"), "generation_config.json changed"),
    "a file lost": (lambda out: (out / "generation_config.json").unlink(), "generation_config.json is missing"),
    "a written file lost": (lambda out: (out / "tokenizer_config.json").unlink(), "tokenizer_config.json is missing"),
    "a file more": (lambda out: (out / "more.txt").write_text(""), "more.txt was not to be there"),
    "a stray weights file": (lambda out: (out / "model-00099.safetensors").write_bytes(b""), "was not to be there"),
}


@pytest.mark.parametrize(("change", "told"), BREAKS.values(), ids=list(BREAKS))
def test_fails_where_a_file_differs(change: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    pair = Pair("extend", FilesCarried, tmp_path)
    change(pair.out)
    assert told in pair.broken()


def test_fails_where_an_omitted_file_came_along(tmp_path: Path) -> None:
    pair = Pair("untie", FilesCarried, tmp_path)
    for folder in (pair.source, pair.out):
        (folder / "pytorch_model.bin").write_bytes(b"old")
    pair.promises = [FilesCarried(("config.json",), ("pytorch_model.bin",))]
    assert "pytorch_model.bin was not to be there" in pair.broken()
