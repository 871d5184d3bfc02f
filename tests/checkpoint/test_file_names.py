"""The table of tokenizer and processor file names against the classes of the installed transformers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import transformers
import transformers.utils
import transformers.utils.hub

from vocabsurgeon.checkpoint.file_names import PROCESSOR_FILES, TOKENIZER_FILES, TOKENIZER_FOLDERS

ROOT = Path(transformers.__file__).parent


def _texts(pattern: str) -> Iterator[str]:
    for file in sorted(ROOT.glob(pattern)):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _vocab_files() -> Iterator[str]:
    """The values of each dictionary that a tokenizer's module assigns to `vocab_files_names`, in whatever case.

    Read from the source: a class whose own packages are not installed counts too.
    """
    for file in sorted(ROOT.glob("**/tokenization*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            names = [target.id.lower() for target in targets if isinstance(target, ast.Name)]
            if any("vocab_files_names" in name for name in names) and isinstance(node.value, ast.Dict):
                yield from (str(_constant(value, file)) for value in node.value.values)


def _constant(node: ast.expr, file: Path) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    assert isinstance(node, ast.Name), f"{file}: a file name that is computed"
    return getattr(__import__(f"transformers.{file.stem}", fromlist=[node.id]), node.id)


def _known(name: str, patterns: frozenset[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def test_every_tokenizer_class_has_its_files_in_the_table() -> None:
    names = set(_vocab_files())
    assert len(names) > 20
    assert not [name for name in sorted(names) if not _known(name, TOKENIZER_FILES)]


@pytest.mark.parametrize("module", ["tokenization_utils_base", "tokenization_utils_tokenizers", "utils.hub"])
def test_every_file_name_constant_of_the_base_classes_is_in_the_table(module: str) -> None:
    constants = vars(__import__(f"transformers.{module}", fromlist=["_"]))
    names = {str(value) for key, value in constants.items() if key.endswith("_FILE") and isinstance(value, str)}
    assert not [name for name in sorted(names) if not _known(name, TOKENIZER_FILES)]
    assert transformers.utils.hub.CHAT_TEMPLATE_DIR in TOKENIZER_FOLDERS


def test_every_processor_file_name_is_in_the_table() -> None:
    utils = vars(transformers.utils)
    names = {
        str(value)
        for key, value in utils.items()
        if key.endswith(("PROCESSOR_NAME", "EXTRACTOR_NAME", "AUDIO_TOKENIZER_NAME"))
    }
    assert len(names) >= 3
    assert not [name for name in sorted(names) if not _known(name, PROCESSOR_FILES)]


def test_files_that_single_classes_name_are_in_a_table() -> None:
    known = TOKENIZER_FILES | PROCESSOR_FILES | {"config.json"}
    for kind in ("tokenization", "processing", "feature_extraction", "image_processing", "video_processing"):
        found = {text for text in _texts(f"models/*/{kind}*.py") if _looks_like_a_file(text)}
        assert not [name for name in sorted(found) if not _known(name, frozenset(known))]


def _looks_like_a_file(text: str) -> bool:
    stem, dot, ending = text.rpartition(".")
    return (
        bool(dot)
        and ending in ("json", "txt", "model", "spm", "jinja")
        and stem.replace("_", "").replace(".", "").isalnum()
    )
