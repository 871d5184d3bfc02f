"""What a folder held, by content and not by time: enough to say later whether a source is still the same."""

from __future__ import annotations

import hashlib
import zlib
from io import FileIO
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.rows import BLOCK_BYTES, open_source
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError


def fingerprint(source: Checkpoint) -> dict[str, Any]:
    """`{"sha256": …, "files": {name: {"bytes", "sha256" | "crc32"}}}` over every file of the folder.

    Weight files are summed with CRC-32 (of everything, at memory speed), all others with SHA-256; `sha256` sums up the
    list. It tells accidental change, not forgery of weights. Raises `CheckpointError` where a file cannot be read.
    """
    files = {name: _sum(source.path(name), name in source.shards.headers) for name in source.files}
    summary = "\n".join(f"{name} {sorted(entry.items())}" for name, entry in sorted(files.items()))
    return {"sha256": hashlib.sha256(summary.encode("utf-8", "surrogateescape")).hexdigest(), "files": files}


def _sum(path: Path, weights: bool) -> dict[str, Any]:
    digest, check, size = hashlib.sha256(), 0, 0
    buffer = bytearray(BLOCK_BYTES)
    view = memoryview(buffer)
    with open_source(path) as file:
        while count := _read_into(file, view, path):
            size += count
            if weights:
                check = zlib.crc32(view[:count], check)
            else:
                digest.update(view[:count])
    return {"bytes": size, "crc32": f"{check:08x}"} if weights else {"bytes": size, "sha256": digest.hexdigest()}


def _read_into(file: FileIO, view: memoryview, path: Path) -> int | None:
    try:
        return file.readinto(view)
    except OSError as error:
        raise CheckpointError(f"cannot be read: {error.strerror}", where=path) from error
