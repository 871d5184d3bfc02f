"""The package root offers what it lists: each name resolves, and the three lists in it agree."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import vocabsurgeon


@pytest.mark.parametrize("name", vocabsurgeon.__all__)
def test_public_name_resolves(name: str) -> None:
    assert getattr(vocabsurgeon, name).__name__ == name


def test_the_lists_agree() -> None:
    tree = ast.parse(Path(vocabsurgeon.__file__).read_text())
    typed = {
        (alias.name, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vocabsurgeon.")
        for alias in node.names
    }
    assert typed == {(name, f"vocabsurgeon.{module}") for name, module in vocabsurgeon._MODULES.items()}
    assert set(vocabsurgeon.__all__) == set(vocabsurgeon._MODULES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = vocabsurgeon.nonsense
