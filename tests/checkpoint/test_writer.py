"""The writer: what changes, what is kept to the byte, what is linked, how much memory it takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.checkpoints import Stored, checkpoint, header_of, random_tensor, stored, tensor_of, weights_file
from vocabsurgeon.checkpoint import writer
from vocabsurgeon.checkpoint.edits import (
    CopyOf,
    CopyTensor,
    DropTensor,
    MeanOf,
    MeanOfTensors,
    OmitFile,
    ReplaceTensor,
    WriteFile,
    WriteRows,
    WriteValues,
    Zeros,
)
from vocabsurgeon.checkpoint.evaluate import round_once
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.shards import INDEX
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.writer import write
from vocabsurgeon.errors import CheckpointError, OutputError

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
TABLE, NORM = random_tensor("BF16", (8, 4), 1), random_tensor("F32", (4,), 2)
GROW = WriteRows("t", 0, 10, ((8, CopyOf(3)), (9, Zeros())))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def single(tmp_path: Path) -> Checkpoint:
    return Checkpoint.open(checkpoint(tmp_path / "m", {"n": NORM, "t": TABLE}, notes__txt=b"1\r\n"))


@pytest.fixture
def sharded(tmp_path: Path) -> Checkpoint:
    return Checkpoint.open(checkpoint(tmp_path / "m", {"n": NORM}, {"t": TABLE}, parameters=True))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_write_without_edits_gives_every_file_byte_for_byte(single: Checkpoint, out: Path) -> None:
    (single.root / "sub").mkdir()
    (single.root / "sub" / "x").write_bytes(b"x")
    write(Checkpoint.open(single.root), (), (), out)
    assert _contents(out) == _contents(single.root)


def test_a_mean_and_values_are_written_in_the_tensors_own_dtype(tmp_path: Path, out: Path) -> None:
    first, second = tensor_of([[1.0, 2.0], [3.0, -4.0]], "BF16"), tensor_of([[2.0, 2.0], [4.0, 4.0]], "F32")
    source = Checkpoint.open(checkpoint(tmp_path / "m", {"a": first, "n": NORM}, {"b": second}))
    edits = (MeanOfTensors("a", ("a", "b")), DropTensor("b"), WriteValues("n", (1.0, 0.1, -2.0, 3.0)))
    write(source, edits, (), out)
    wanted = {"a": tensor_of([[1.5, 2.0], [3.5, 0.0]], "BF16"), "n": tensor_of([1.0, 0.1, -2.0, 3.0])}
    assert stored(out) == wanted
    assert Checkpoint.open(out).shards.total_size == 24


def test_a_tensor_is_replaced_by_one_of_another_file_and_dtype(sharded: Checkpoint, out: Path) -> None:
    write(sharded, (ReplaceTensor("n", "t"),), (), out)
    assert stored(out) == {"n": TABLE, "t": TABLE}
    assert (out / SECOND).read_bytes() == (sharded.root / SECOND).read_bytes()


def test_write_never_touches_the_source(single: Checkpoint, out: Path) -> None:
    before = _contents(single.root)
    write(single, (GROW,), (WriteFile("config.json", b"{}"), OmitFile("notes.txt", "x")), out, link=True)
    (out / RECORD).write_text("{}")
    assert _contents(single.root) == before


def test_growth_keeps_old_rows_and_untouched_tensors(single: Checkpoint, out: Path) -> None:
    write(single, (GROW,), (), out)
    result = stored(out)
    assert result["n"] == NORM
    assert result["t"] == Stored("BF16", (10, 4), TABLE.data + TABLE.data[24:32] + bytes(8))
    assert list(header_of(out / "model.safetensors")) == ["__metadata__", "n", "t"]


def test_rewritten_rows_change_and_their_neighbors_do_not(single: Checkpoint, out: Path) -> None:
    write(single, (WriteRows("t", 0, 8, ((7, Zeros()), (0, CopyOf(1)), (4, CopyOf(0)))),), (), out)
    old, new = TABLE.data, stored(out)["t"].data
    assert new == old[8:16] + old[8:32] + old[:8] + old[40:56] + bytes(8)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2"])
def test_mean_row_of_every_float_type_is_written(tmp_path: Path, out: Path, dtype: str) -> None:
    table = tensor_of(np.random.default_rng(3).standard_normal((6, 16)), dtype)
    source = Checkpoint.open(checkpoint(tmp_path / "m", {"t": table}))
    write(source, (WriteRows("t", 0, 7, ((6, MeanOf((1, 2, 2))),)),), (), out)
    mean = table.array()[[1, 2, 2]].astype(np.float64).mean(axis=0)
    assert stored(out)["t"].data == table.data + round_once(mean, table.array().dtype).tobytes()


def test_bias_along_axis_1_grows(tmp_path: Path, out: Path) -> None:
    source = Checkpoint.open(checkpoint(tmp_path / "m", {"b": tensor_of([[0, 2, 4, 6]]), "n": NORM}))
    write(source, (WriteRows("b", 1, 6, ((0, CopyOf(3)), (4, MeanOf((0, 1))), (5, Zeros()))),), (), out)
    assert stored(out) == {"b": tensor_of([[6, 2, 4, 6, 1, 0]]), "n": NORM}


def test_files_are_written_omitted_and_carried(single: Checkpoint, out: Path) -> None:
    (single.root / RECORD).write_text("an earlier run")
    (single.root / "sub").mkdir()
    (single.root / "sub" / "x").write_bytes(b"x")
    edits = (WriteFile("config.json", b"{ }"), WriteFile("new/deep.json", b"[]"), OmitFile("notes.txt", "why not"))
    write(Checkpoint.open(single.root), (GROW,), edits, out)
    names = {"config.json", "model.safetensors", "new/deep.json", "sub/x"}
    assert set(_contents(out)) == names
    assert (out / "config.json").read_bytes() == b"{ }"


def test_index_changes_its_totals_and_no_other_byte(sharded: Checkpoint, out: Path) -> None:
    write(sharded, (GROW,), (), out)
    old = sharded.path(INDEX).read_text()
    changed = {'"total_size": 80': '"total_size": 96', '"total_parameters": 36': '"total_parameters": 44'}
    for before, after in changed.items():
        assert old.count(before) == 1
        old = old.replace(before, after)
    assert (out / INDEX).read_text() == old
    assert (out / FIRST).read_bytes() == sharded.path(FIRST).read_bytes()


def test_index_gains_and_loses_keys(sharded: Checkpoint, out: Path) -> None:
    write(sharded, (CopyTensor("head", "t"),), (), out)
    index = json.loads((out / INDEX).read_text())
    assert index["weight_map"] == {"n": FIRST, "t": SECOND, "head": SECOND}
    assert index["metadata"] == {"total_size": 144, "total_parameters": 68}
    again = out.with_name("again")
    again.mkdir()
    write(Checkpoint.open(out), (DropTensor("head"),), (), again)
    assert _contents(again) == _contents(sharded.root)


@pytest.mark.parametrize("metadata", [None, [], {"total_size": 1.0}, {"total_size": "80", "other": 1}])
def test_index_with_odd_metadata_gets_an_exact_total(sharded: Checkpoint, out: Path, metadata: Any) -> None:
    path = sharded.path(INDEX)
    path.write_text(json.dumps({"weight_map": {"n": FIRST, "t": SECOND}, "metadata": metadata}))
    write(Checkpoint.open(sharded.root), (GROW,), (), out)
    kept = {"other": 1} if metadata and "other" in metadata else {}
    assert json.loads((out / INDEX).read_text())["metadata"] == {"total_size": 96} | kept


def test_dropping_the_last_tensor_of_a_shard_drops_the_shard(sharded: Checkpoint, out: Path) -> None:
    write(sharded, (DropTensor("t"),), (), out)
    assert set(_contents(out)) == {"config.json", FIRST, INDEX}
    assert json.loads((out / INDEX).read_text())["weight_map"] == {"n": FIRST}
    assert stored(out) == {"n": NORM}


def _inode(path: Path) -> int:
    return path.stat().st_ino


def test_link_shares_what_is_untouched_and_nothing_else(sharded: Checkpoint, out: Path) -> None:
    write(sharded, (GROW,), (), out, link=True)
    shared = {name for name in _contents(out) if _inode(out / name) == _inode(sharded.root / name)}
    assert shared == {"config.json", FIRST}


def test_link_of_a_single_file_renames_it_when_it_gets_company(single: Checkpoint, out: Path) -> None:
    write(single, (CopyTensor("head", "t"),), (), out, link=True)
    assert _inode(out / FIRST) == _inode(single.path("model.safetensors"))
    assert stored(out) == {"n": NORM, "t": TABLE, "head": TABLE}
    assert Checkpoint.open(out).shards.total_size == 144
    assert header_of(out / SECOND)["__metadata__"] == {"format": "pt"}
    assert not (out / "model.safetensors").exists()


def test_link_of_shards_adds_a_shard(sharded: Checkpoint, out: Path) -> None:
    write(sharded, (CopyTensor("head", "t"),), (), out, link=True)
    assert _inode(out / SECOND) == _inode(sharded.path(SECOND))
    assert Checkpoint.open(out).tensors["head"].file == "model-untied-head.safetensors"


def test_link_to_a_stale_file_of_a_new_shard_name_is_not_carried(sharded: Checkpoint, out: Path) -> None:
    (sharded.root / "model-untied-head.safetensors").write_bytes(weights_file({"stale": NORM}))
    write(Checkpoint.open(sharded.root), (CopyTensor("head", "t"),), (), out, link=True)
    assert stored(out) == {"n": NORM, "t": TABLE, "head": TABLE}


def test_a_numbered_set_without_an_index_gets_one_with_any_change(sharded: Checkpoint, out: Path) -> None:
    (sharded.root / INDEX).unlink()
    source = Checkpoint.open(sharded.root)
    write(source, (), (), out)
    assert INDEX not in os.listdir(out) and _contents(out) == _contents(source.root)
    for number, (edits, files) in enumerate((((GROW,), ()), ((), (WriteFile("notes.md", b""),)))):
        folder = out.parent / f"changed{number}"
        folder.mkdir()
        write(source, edits, files, folder)
        opened = Checkpoint.open(folder)
        assert opened.shards.index is not None and not opened.shards.unindexed
        assert opened.shards.index.value["weight_map"] == {"n": FIRST, "t": SECOND}
        assert opened.shards.index.value["metadata"]["total_size"] == opened.shards.total_size


def test_link_follows_links_so_that_the_result_stands_alone(single: Checkpoint, out: Path) -> None:
    os.rename(single.path("notes.txt"), single.path("real.txt"))
    single.path("notes.txt").symlink_to("real.txt")
    write(Checkpoint.open(single.root), (), (), out, link=True)
    assert not (out / "notes.txt").is_symlink() and _inode(out / "notes.txt") == _inode(single.path("real.txt"))


def test_link_copies_where_the_system_cannot_link(
    single: Checkpoint, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    write(single, (), (), out, link=True)
    assert _contents(out) == _contents(single.root)


@pytest.fixture
def mask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_permissions_are_those_of_new_files(single: Checkpoint, out: Path, mask: None) -> None:
    for name in single.files:
        single.path(name).chmod(0o600)
    write(single, (GROW,), (WriteFile("new/x.json", b"[]"),), out)
    modes = {path.stat().st_mode & 0o777 for path in out.rglob("*") if path.is_file()}
    assert modes == {0o640} and (out / "new").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    "error", [None, OSError(38, "Function not implemented"), OSError(95, "Operation not supported")]
)
def test_copying_works_where_the_kernel_does_not_copy(
    single: Checkpoint, out: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    def copy(*_: Any, **__: Any) -> int:
        if error is not None:
            raise error
        return 0

    monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
    monkeypatch.setattr(writer, "BLOCK_BYTES", 7)
    write(single, (GROW,), (), out)
    assert stored(out)["n"] == NORM and stored(out)["t"].data.startswith(TABLE.data)


def test_copying_works_where_the_kernel_copies_and_writes_a_little_at_a_time(
    single: Checkpoint, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_once = os.write
    monkeypatch.setattr(os, "write", lambda target, data: write_once(target, bytes(data)[:5]))
    if hasattr(os, "copy_file_range"):
        copy = os.copy_file_range
        monkeypatch.setattr(
            os, "copy_file_range", lambda a, b, n, offset_src: copy(a, b, min(n, 3), offset_src=offset_src)
        )
    write(single, (GROW,), (), out)
    assert stored(out)["n"] == NORM and stored(out)["t"].data.startswith(TABLE.data)


def test_progress_counts_every_byte_of_the_weights(sharded: Checkpoint, out: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    write(sharded, (GROW,), (), out, progress=lambda *step: seen.append(step))
    total = sum((out / name).stat().st_size for name in (FIRST, SECOND))
    assert seen == sorted(seen) and {step[2] for step in seen} == {total}
    assert total - seen[-1][1] == len((out / SECOND).read_bytes()) - 80  # headers are not counted


def test_source_cut_short_while_writing_is_an_expected_error(single: Checkpoint, out: Path) -> None:
    os.truncate(single.path("model.safetensors"), 200)
    with pytest.raises(CheckpointError, match="cut short"):
        write(single, (GROW,), (), out)


def test_source_file_that_vanished_is_told_as_the_sources_fault(single: Checkpoint, out: Path) -> None:
    single.path("model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        write(single, (GROW,), (), out)


@pytest.mark.parametrize(("link", "needed"), [(False, True), (True, False)])
def test_full_disk_is_told_before_anything_is_written(
    single: Checkpoint, out: Path, monkeypatch: pytest.MonkeyPatch, link: bool, needed: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10})())
    if not needed:
        write(single, (), (), out, link=link)
        return
    with pytest.raises(OutputError, match="has no room"):
        write(single, (), (), out, link=link)
    assert _contents(out) == {}


_MEMORY = """
import os, resource, sys
from pathlib import Path
import vocabsurgeon.checkpoint.fingerprint
from vocabsurgeon.checkpoint import compare
from vocabsurgeon.checkpoint.edits import CopyTensor, MeanOf, WriteRows
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.writer import write
if sys.argv[3] == "fallback":
    del os.copy_file_range
source, out = Checkpoint.open(sys.argv[1]), Path(sys.argv[2])
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = source.tensors["t"].shape[0]
write(source, (WriteRows("t", 0, rows + 1, ((rows, MeanOf((), ((0, rows),))),)), CopyTensor("v", "u")), (), out)
after = Checkpoint.open(out)
assert compare.tables_equal(source.rows("u"), after.rows("v"))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) // 1024)
print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "transformers", "onnx", "tokenizers"}))
"""


@pytest.mark.parametrize("way", ["kernel", "fallback"])
def test_memory_does_not_grow_with_the_checkpoint(tmp_path: Path, out: Path, way: str) -> None:
    rows, width, others = 80_000, 640, 100 << 20
    table, other = rows * width * 2, others * 2
    header = {
        "t": {"dtype": "BF16", "shape": [rows, width], "data_offsets": [0, table]},
        "u": {"dtype": "BF16", "shape": [others], "data_offsets": [table, table + other]},
    }
    text = json.dumps(header).encode()
    source = checkpoint(tmp_path / "m", {"t": TABLE})
    with open(source / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + table + other)
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(source), str(out), way], capture_output=True, text=True, check=True
    )
    grown, imported = done.stdout.splitlines()
    assert int(grown) < 100 and imported == "[]"
