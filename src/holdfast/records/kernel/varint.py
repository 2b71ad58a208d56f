"""Zigzag varints, and the one trick that keeps the checks of a record cheap.

A field that would reach past the end of its record moves the position to LOST, far behind any buffer. From
there every further read is lost too, so a record needs a single comparison: did its fields end where it ends?
"""

from typing import Final

import numpy as np

from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets

LOST: Final = 1 << 62


@inlined
def read_varint(buffer: Octets, start: int, end: int) -> tuple[int, int]:
    """(number, position after it); the position is LOST if the number does not end before `end`."""
    if start < end:
        raw = np.int64(buffer[np.uintp(start)])
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), start + 1  # type: ignore[return-value]
        if start + 1 < end:
            high = np.int64(buffer[np.uintp(start + 1)])
            if high < 0x80:
                raw = (raw & 0x7F) | high << 7
                return (raw >> 1) ^ -(raw & 1), start + 2  # type: ignore[return-value]
    return _read_long(buffer, start, end)


@compiled
def _read_long(buffer: Octets, start: int, end: int) -> tuple[int, int]:
    raw = np.uint64(0)
    shift = np.uint64(0)
    while start < end and shift < np.uint64(70):
        byte = np.uint64(buffer[start])
        start += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), start  # type: ignore[return-value]
        shift += np.uint64(7)
    return 0, LOST


@inlined
def skip_bytes(start: int, length: int, end: int) -> int:
    """Where a field of `length` bytes ends; a length of -1 is a null and takes none."""
    if length == -1:
        return start
    if length < 0 or length > end - start:
        return LOST
    return start + length
