"""The C allocator, told that buffers of requests come and go all the time."""

import ctypes
from typing import Final

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Freed memory that stays with the process."""

HEAP_BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024
"""Larger blocks are mapped and unmapped one by one; the most that glibc allows."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> None:
    """Have glibc keep what is freed, within a bound, instead of giving it back after every commit.

    Otherwise each buffer's pages are faulted in anew: up to a third of the time that a produced megabyte took.
    Other allocators are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES_MAX)
