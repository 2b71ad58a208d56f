"""murmur2 as Kafka's Java client has it: the hash that decides which partition a key goes to."""

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.encoding import Slices
from holdfast.records.kernel.jit import compiled

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)


@compiled
def hash_keys(keys: Slices, hashes: NDArray[np.int32]) -> None:
    """The hash of every key without its sign bit; 0 for a null, which has no hash."""
    for row in range(len(hashes)):
        length = np.int64(keys.lengths[row])
        if length < 0:
            hashes[row] = 0
            continue
        at = keys.starts[row]
        end = at + length
        state = _SEED ^ np.uint32(length)
        while end - at >= 4:
            word = np.uint32(keys.data[at]) | np.uint32(keys.data[at + 1]) << np.uint32(8)
            word |= np.uint32(keys.data[at + 2]) << np.uint32(16) | np.uint32(keys.data[at + 3]) << np.uint32(
                24
            )
            word = np.uint32(word * _MULTIPLIER)
            word ^= word >> np.uint32(24)
            word = np.uint32(word * _MULTIPLIER)
            state = np.uint32(state * _MULTIPLIER) ^ word
            at += 4
        left = end - at
        if left == 3:
            state ^= np.uint32(keys.data[at + 2]) << np.uint32(16)
        if left >= 2:
            state ^= np.uint32(keys.data[at + 1]) << np.uint32(8)
        if left >= 1:
            state ^= np.uint32(keys.data[at])
            state = np.uint32(state * _MULTIPLIER)
        state ^= state >> np.uint32(13)
        state = np.uint32(state * _MULTIPLIER)
        state ^= state >> np.uint32(15)
        hashes[row] = np.int32(state & np.uint32(0x7FFFFFFF))
