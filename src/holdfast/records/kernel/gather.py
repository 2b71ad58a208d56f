"""Slices of a buffer → contiguous bytes, offsets and validity, as Arrow lays them out."""

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.memory import Octets, copy_bytes


@compiled
def lay_out(lengths: NDArray[np.int32], offsets: NDArray[np.int32], validity: Octets) -> tuple[int, int]:
    """(bytes, nulls): fill offsets and the validity bitmap. Beyond 2³¹ - 1 bytes the offsets are void."""
    total = np.int64(0)
    nulls = 0
    for row in range(len(lengths)):
        offsets[row] = total
        if lengths[row] >= 0:
            total += lengths[row]
            validity[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            nulls += 1
    offsets[len(lengths)] = total
    return total, nulls  # type: ignore[return-value]


@compiled
def gather(data: Octets, starts: NDArray[np.int64], offsets: NDArray[np.int32], output: Octets) -> None:
    """Copy every slice to its place."""
    for row in range(len(starts)):
        length = offsets[row + 1] - offsets[row]
        if length > 0:
            copy_bytes(output, np.int64(offsets[row]), data, starts[row], np.int64(length))
