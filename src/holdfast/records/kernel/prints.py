"""Fingerprints of byte strings that lie one behind the other, as Arrow has them."""

import numpy as np
from numpy.typing import NDArray

from holdfast.records.buffers import ReadableBytes
from holdfast.records.kernel.hashing import hash_bytes
from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.memory import Octets


def as_offsets(buffer: ReadableBytes) -> NDArray[np.int32]:
    """Arrow's offsets as a read-only array: one type, so that the kernel is compiled once."""
    offsets = np.frombuffer(buffer, np.int32)
    offsets.flags.writeable = False
    return offsets


@compiled
def hash_slices(
    data: Octets, offsets: NDArray[np.int32], secret: NDArray[np.uint64], prints: NDArray[np.uint64]
) -> None:
    """64 bits for each data[offsets[row] : offsets[row + 1]]."""
    for row in range(len(prints)):
        start = np.int64(offsets[row])
        prints[row] = hash_bytes(data, start, np.int64(offsets[row + 1]) - start, secret)
