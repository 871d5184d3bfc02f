"""Early write-back: asks the kernel to begin writing to the disk, so that the last fsync has little left to do.

It promises nothing and tells of no error: a failed write-back is told to the fsync that every file gets in the end.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

PART_BYTES = 32 << 20
"""How much is written before the disk is set to work on it."""
WORTHWHILE = 1 << 20
"""Less than this is left to the fsync: a page that is still being filled would be written twice."""
_BEGIN = 2
"""`SYNC_FILE_RANGE_WRITE`: begin, do not wait."""


def begin_write_back(descriptor: int, count: int) -> None:
    """Set the disk to work on the last `count` bytes before the file's position; nothing without such a call."""
    call = _sync_file_range() if count >= WORTHWHILE else None
    if call is not None:
        call(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR) - count, count, _BEGIN)


@functools.cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """The call, which Linux alone has and Python does not offer."""
    import ctypes

    try:
        call = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError, TypeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    function: Callable[[int, int, int, int], int] = call
    return function
