"""What a folder held, by content and not by time: enough to say later whether a source is still the same."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.rows import open_source
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError

BLOCK_BYTES = 1 << 20
"""Read and summed at a time: small enough to stay in a core's own cache."""
SAMPLES = 16
"""How many blocks of a sampled file are read, evenly spaced, first and last included: at most 16 MB."""


def fingerprint(
    source: Checkpoint,
    sampled: Collection[str] = (),
    stopped: Callable[[], bool] = lambda: False,
    hashed: Collection[str] = (),
) -> dict[str, Any]:
    """`{"sha256": …, "files": {name: {"bytes", "sha256" | "crc32" | "sampled_crc32"}}}` over every file of the folder.

    Weight files are summed with CRC-32 (of everything, at memory speed), all others with SHA-256; `sha256` sums up the
    list. Weight files in `hashed` are summed with SHA-256 too. Of those in `sampled` only evenly spaced blocks are
    read: that tells another file, not one changed byte, and is for files that the result is linked to. It tells
    accidental change, not forgery of weights. Gives up, with a sum of no use, soon after `stopped` says so. Raises
    `CheckpointError` where a file cannot be read.
    """
    return summed_up(source_sums(source, source.files, sampled, stopped, hashed))


def source_sums(
    source: Checkpoint,
    names: Iterable[str],
    sampled: Collection[str] = (),
    stopped: Callable[[], bool] = lambda: False,
    hashed: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """The entries of `fingerprint` for the files `names` alone."""
    return {name: _sum(source, name, sampled, stopped, hashed) for name in names}


def summed_up(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fingerprint made of its entries."""
    summary = "\n".join(f"{name} {sorted(entry.items())}" for name, entry in sorted(files.items()))
    return {"sha256": hashlib.sha256(summary.encode("utf-8", "surrogateescape")).hexdigest(), "files": dict(files)}


def is_of(recorded: Mapping[str, Any], source: Checkpoint) -> bool:
    """Whether `recorded`, an earlier `fingerprint` as read from a record, is that of `source`."""
    entries = recorded.get("files")
    files = entries if isinstance(entries, dict) else {}
    sampled = [name for name, entry in files.items() if isinstance(entry, dict) and "sampled_crc32" in entry]
    hashed = [name for name, entry in files.items() if isinstance(entry, dict) and "sha256" in entry]
    return bool(recorded.get("sha256") == fingerprint(source, sampled, hashed=hashed)["sha256"])


def checksums(
    folder: Path, names: Iterable[str], sampled: Collection[str] = (), stopped: Callable[[], bool] = lambda: False
) -> dict[str, dict[str, Any]]:
    """`{name: {"bytes", "sha256"}}` of the files `names` below `folder`; of those in `sampled` (linked ones, which are
    not read for the result) `sampled_crc32` over evenly spaced blocks in its place. Gives up, with sums of no use, soon
    after `stopped` says so. Raises `CheckpointError` where a file cannot be read."""
    return {name: _sum_of(folder / name, name in sampled, name in sampled, stopped) for name in sorted(names)}


def _sum(
    source: Checkpoint,
    name: str,
    sampled: Collection[str],
    stopped: Callable[[], bool],
    hashed: Collection[str],
) -> dict[str, Any]:
    weights = name in source.shards.headers and name not in hashed
    return _sum_of(source.path(name), weights, weights and name in sampled, stopped)


def _sum_of(path: Path, weights: bool, partly: bool, stopped: Callable[[], bool]) -> dict[str, Any]:
    digest, check = hashlib.sha256(), 0
    with open_source(path) as file:
        size = os.fstat(file.fileno()).st_size
        for block in _sample(file, size, path) if partly else _blocks(file, path):
            if stopped():
                break
            if weights:
                check = zlib.crc32(block, check)
            else:
                digest.update(block)
    if weights:
        return {"bytes": size, "sampled_crc32" if partly else "crc32": f"{check:08x}"}
    return {"bytes": size, "sha256": digest.hexdigest()}


def _blocks(file: FileIO, path: Path) -> Iterator[memoryview]:
    """The file's bytes in order; each block is good until the next one is asked for."""
    view = memoryview(bytearray(BLOCK_BYTES))
    while count := _read_into(file, view, path):
        yield view[:count]


def _sample(file: FileIO, size: int, path: Path) -> Iterator[memoryview]:
    view = memoryview(bytearray(BLOCK_BYTES))
    last = max(0, size - BLOCK_BYTES)
    for start in sorted({last * number // (SAMPLES - 1) for number in range(SAMPLES)}):
        file.seek(start)
        yield view[: _read_into(file, view, path)]


def _read_into(file: FileIO, view: memoryview, path: Path) -> int | None:
    try:
        return file.readinto(view)
    except OSError as error:
        raise CheckpointError(f"cannot be read: {error.strerror}", where=path) from error
