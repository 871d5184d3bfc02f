"""One test an attack on a folder: names that leave it, links out of it, an index that lies, JSON that is none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checkpoints import checkpoint, random_tensor, weights_file
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import VocabsurgeonError

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "m", {"a": random_tensor("F32", (8, 2))}, {"b": random_tensor("F32", (3,))})


@pytest.fixture
def single(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    return checkpoint(tmp_path / "m", {"a": random_tensor("F32", (8, 2))})


def _refused(folder: Path) -> str:
    with pytest.raises(VocabsurgeonError) as caught:
        Checkpoint.open(folder)
    line = str(caught.value)
    assert line.isprintable() and caught.value.exit_code == 2
    return line


def _weight_map(**names: Any) -> dict[str, Any]:
    return {"metadata": {"total_size": 76}, "weight_map": {"a": FIRST, "b": SECOND} | names}


LYING_INDEXES: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "is not JSON"),
    "empty": (b"", "is not JSON"),
    "not text": (b"\xff{}", "is not UTF-8"),
    "a list": ([], "is not a JSON object"),
    "no weight_map": ({"metadata": {}}, "no weight_map"),
    "a weight_map that is a list": ({"weight_map": ["a"]}, "no weight_map"),
    "a weight_map that is null": ({"weight_map": None}, "no weight_map"),
    "an empty weight_map": ({"weight_map": {}}, "empty weight_map"),
    "a file name that is a number": (_weight_map(a=1), "no weight_map"),
    "a file name that is null": (_weight_map(a=None), "no weight_map"),
    "a file name with ../": (_weight_map(a="../secret.safetensors"), "not a plain file name"),
    "a file name with ../ inside": (_weight_map(a="x/../../secret"), "not a plain file name"),
    "an absolute file name": (_weight_map(a="/etc/passwd"), "not a plain file name"),
    "a file name with a backslash": (_weight_map(a="..\\secret"), "not a plain file name"),
    "a file name of two dots": (_weight_map(a=".."), "not a plain file name"),
    "an empty file name": (_weight_map(a=""), "not a plain file name"),
    "a file name with NUL": (_weight_map(a="a\0b"), "not a plain file name"),
    "a file name of 5000 bytes": (_weight_map(a="x" * 5000), "is missing"),
    "a file that is missing": (_weight_map(a="model-00003-of-00002.safetensors"), "is missing"),
    "a file that is config.json": (_weight_map(a="config.json"), "config.json"),
    "a tensor in the wrong file": (_weight_map(a=SECOND, b=FIRST), f"is not in {SECOND}"),
    "a tensor that no file holds": (_weight_map(c=FIRST), f"c: is not in {FIRST}"),
    "a tensor that is not listed": ({"weight_map": {"a": FIRST}} | {"x": 1}, ""),
    "a name with half a surrogate pair": (rb'{"weight_map":{"a":"\ud800"}}', "half a surrogate"),
    "nested a hundred thousand deep": (b'{"weight_map":' * 100_000, "model.safetensors.index.json"),
}


@pytest.mark.parametrize(("index", "reason"), LYING_INDEXES.values(), ids=list(LYING_INDEXES))
def test_index_that_lies_is_refused(sharded: Path, index: Any, reason: str) -> None:
    (sharded / INDEX).write_bytes(index if isinstance(index, bytes) else json.dumps(index).encode())
    if reason:
        assert reason in _refused(sharded)
    else:
        (sharded / FIRST).write_bytes(weights_file({"a": random_tensor("F32", (8, 2)), "c": random_tensor("U8", (1,))}))
        assert "does not list it" in _refused(sharded)


def test_tensor_in_two_shards_is_refused(sharded: Path) -> None:
    (sharded / SECOND).write_bytes(weights_file({"a": random_tensor("F32", (8, 2)), "b": random_tensor("F32", (3,))}))
    assert "stored in two shards" in _refused(sharded)


def test_single_file_beside_an_index_that_does_not_name_it_is_refused(sharded: Path) -> None:
    (sharded / "model.safetensors").write_bytes(weights_file({}))
    assert "readers disagree" in _refused(sharded)


def test_index_without_its_shards_is_refused(single: Path) -> None:
    (single / INDEX).write_text(json.dumps(_weight_map()))
    assert "model" in _refused(single)


def test_weights_that_are_a_folder_are_refused(single: Path) -> None:
    (single / "model.safetensors").unlink()
    (single / "model.safetensors").mkdir()
    assert "not a regular file" in _refused(single)


def test_index_that_is_a_folder_is_refused(single: Path) -> None:
    (single / INDEX).mkdir()
    assert "not a regular file" in _refused(single)


BAD_FILES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "link out of the folder": ("x.json", lambda path: path.symlink_to("../secret"), "out of the folder"),
    "absolute link out": ("x.json", lambda path: path.symlink_to("/etc/passwd"), "out of the folder"),
    "link out by way of inside": ("x.json", lambda path: path.symlink_to("../m/../secret"), "out of the folder"),
    "link to nowhere": ("x.json", lambda path: path.symlink_to("nowhere"), "leads nowhere"),
    "link to itself": ("x.json", lambda path: path.symlink_to("x.json"), "leads nowhere"),
    "link to a folder": ("x", lambda path: path.symlink_to("."), "link to a folder"),
    "link to a folder outside": ("x", lambda path: path.symlink_to(".."), "link to a folder"),
    "link to a device": ("x.json", lambda path: path.symlink_to("/dev/zero"), "out of the folder"),
    "pipe": ("x.json", os.mkfifo, "neither a file nor a folder"),
    "pipe with a line break in its name": ("a\nb", os.mkfifo, "neither a file nor a folder"),
}


@pytest.mark.parametrize(("name", "make", "reason"), BAD_FILES.values(), ids=list(BAD_FILES))
def test_what_is_no_file_of_the_folder_is_refused(
    single: Path, name: str, make: Callable[[Path], Any], reason: str
) -> None:
    make(single / name)
    assert reason in _refused(single)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_needed_file_that_is_a_pipe_or_a_link_out_is_refused(single: Path, name: str) -> None:
    os.rename(single / name, single.parent / name)
    (single / name).symlink_to(f"../{name}")
    assert "out of the folder" in _refused(single)
    (single / name).unlink()
    os.mkfifo(single / name)
    assert "neither a file nor a folder" in _refused(single)


CONFIGS: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a text": b'"llama"',
    "not text": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "deep": b'{"text_config":' * 100_000,
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=list(CONFIGS))
def test_config_that_is_no_json_object_is_refused(single: Path, content: bytes) -> None:
    (single / "config.json").write_bytes(content)
    assert "config.json" in _refused(single)


def test_config_nested_deeper_than_python_calls_is_walked(single: Path) -> None:
    depth = 900
    (single / "config.json").write_bytes(b'{"text_config":' * depth + b"{}" + b"}" * depth)
    assert len(Checkpoint.open(single).config.levels) == depth + 1
