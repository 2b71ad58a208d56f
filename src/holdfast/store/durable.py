"""Files and directories whose bytes and names survive a power cut."""

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.records.buffers import ReadableBytes

# One system call takes at most IOV_MAX buffers (1024 on Linux).
BUFFERS_PER_WRITE_MAX = 1000

_SYNC_FILE_RANGE_WRITE = 2


def _find_sync_file_range() -> Any:
    """Linux has it; Python's os has not."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function


_SYNC_FILE_RANGE = _find_sync_file_range()


def write_all(file: int, buffers: Sequence[ReadableBytes], position: int) -> int:
    """Write the buffers one after the other from `position` on and return the position after them."""
    done = 0
    pending = list(buffers)
    while done < len(pending):
        written = os.pwritev(file, pending[done : done + BUFFERS_PER_WRITE_MAX], position)
        position += written
        while done < len(pending) and written >= len(pending[done]):
            written -= len(pending[done])
            done += 1
        if written:
            pending[done] = memoryview(pending[done])[written:]
    return position


def begin_writeback(file: int, position: int, length_bytes: int) -> None:
    """Have the system begin to write these bytes out, where it can be told to: the sync to come is shorter then.

    Promises nothing, and waits for nothing.
    """
    if _SYNC_FILE_RANGE is not None:
        _SYNC_FILE_RANGE(file, position, length_bytes, _SYNC_FILE_RANGE_WRITE)


def make_directory(path: Path) -> None:
    """Make a directory and those above it that are missing; each name is durable on return."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file, all of it or nothing."""
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
