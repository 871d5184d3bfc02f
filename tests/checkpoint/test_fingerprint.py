"""The fingerprint tells content and nothing else; the record beside it can always be read back."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path

import pytest

from tests.faults.checkpoints import checkpoint, random_tensor
from vocabsurgeon.checkpoint.fingerprint import fingerprint, is_of
from vocabsurgeon.checkpoint.record import RECORD, versions, write_record
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError


@pytest.fixture
def source(tmp_path: Path) -> Checkpoint:
    return Checkpoint.open(checkpoint(tmp_path / "m", {"a": random_tensor("F32", (8, 2))}, notes__txt=b"hello"))


def test_fingerprint_sums_every_file(source: Checkpoint) -> None:
    files = fingerprint(source)["files"]
    weights = source.path("model.safetensors").read_bytes()
    assert list(files) == ["config.json", "model.safetensors", "notes.txt"]
    assert files["notes.txt"] == {"bytes": 5, "sha256": hashlib.sha256(b"hello").hexdigest()}
    assert files["model.safetensors"] == {"bytes": len(weights), "crc32": f"{zlib.crc32(weights):08x}"}


def test_fingerprint_ignores_times_and_places(source: Checkpoint, tmp_path: Path) -> None:
    first = fingerprint(source)
    os.rename(source.root, tmp_path / "elsewhere")
    os.utime(tmp_path / "elsewhere" / "config.json", (1, 1))
    assert fingerprint(Checkpoint.open(tmp_path / "elsewhere")) == first


@pytest.mark.parametrize("name", ["model.safetensors", "notes.txt"])
def test_fingerprint_sees_one_changed_byte(source: Checkpoint, name: str) -> None:
    first, path = fingerprint(source), source.path(name)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert fingerprint(source)["sha256"] != first["sha256"]


def test_fingerprint_of_a_file_that_vanished_is_an_expected_error(source: Checkpoint) -> None:
    source.path("notes.txt").unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        fingerprint(source)


def test_record_holds_report_versions_and_fingerprint_and_is_repeatable(source: Checkpoint, tmp_path: Path) -> None:
    write_record(tmp_path, {"schema": "x/1"}, fingerprint(source), promises=["p"])
    first = (tmp_path / RECORD).read_bytes()
    write_record(tmp_path, {"schema": "x/1"}, fingerprint(source), promises=["p"])
    assert (tmp_path / RECORD).read_bytes() == first
    document = json.loads(first)
    assert document["schema"] == "x/1" and document["promises"] == ["p"]
    assert document["source_fingerprint"] == fingerprint(source)
    assert document["versions"] == versions() and versions()["numpy"]


def test_file_name_that_is_no_text_survives_in_the_record(source: Checkpoint, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\xe4.txt")
    (source.root / name).touch()
    opened = Checkpoint.open(source.root)
    write_record(tmp_path, {"file": name}, fingerprint(opened))
    document = json.loads((tmp_path / RECORD).read_bytes().decode("utf-8"))
    assert document["file"] == name and name in document["source_fingerprint"]["files"]


def test_sampled_weights_are_read_in_part_and_told_apart_from_summed_ones(
    source: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vocabsurgeon.checkpoint.fingerprint.BLOCK_BYTES", 4)
    monkeypatch.setattr("vocabsurgeon.checkpoint.fingerprint.SAMPLES", 3)
    name = "model.safetensors"
    content = source.path(name).read_bytes()
    middle = (len(content) - 4) // 2
    parts = content[:4] + content[middle : middle + 4] + content[-4:]
    sampled = fingerprint(source, {name, "notes.txt"})
    assert sampled["files"][name] == {"bytes": len(content), "sampled_crc32": f"{zlib.crc32(parts):08x}"}
    assert sampled["files"]["notes.txt"] == fingerprint(source)["files"]["notes.txt"]
    assert is_of(sampled, source) and is_of(fingerprint(source), source)
    source.path(name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert not is_of(sampled, source)


def test_fingerprint_gives_up_when_it_is_told_to(source: Checkpoint) -> None:
    assert fingerprint(source, stopped=lambda: True)["sha256"] != fingerprint(source)["sha256"]


@pytest.mark.parametrize("recorded", [{}, {"sha256": 1, "files": []}, {"sha256": "x", "files": {"a": None}}])
def test_damaged_record_is_of_no_source(source: Checkpoint, recorded: dict[str, object]) -> None:
    assert not is_of(recorded, source)
