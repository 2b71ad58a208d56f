"""Sets of ids summed up, so that two of them can be compared, and those of their difference found again.

A cell has four words: how many ids it was given, the sums of their two lanes, and the sum of their checks, all modulo
2⁶⁴. An id of up to 16 bytes is its own lanes; of a longer one they are a keyed hash and its last 8 bytes. Sums know no
order and can be added and subtracted: where two cells differ by one id, the difference is that id. The check is a
keyed hash of the lanes and the length: without the key nobody can choose ids that cancel each other out. It also picks
the cell, by its upper bits, so that two neighbouring cells add up to the cell of a shorter prefix.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.hashing import hash_bytes, hash_words
from holdfast.records.kernel.jit import compiled, inlined
from holdfast.records.kernel.memory import Octets, load_word

Cells = NDArray[np.uint64]
"""By block and bucket the words of a cell."""

WORDS: Final = 4
COUNT, LOW, HIGH, CHECK = range(WORDS)
LANES_BYTES: Final = 16
LONG: Final = LANES_BYTES + 1
"""The length of every id that does not fit into its lanes."""
SKIPPED: Final = -1
"""As a row's block: the row is nobody's."""

_U = np.uint64


@compiled
def add_ids(
    octets: Octets,
    offsets: NDArray[np.int32],
    codes: NDArray[np.int32],
    blocks: NDArray[np.int32],
    bucket_bits: int,
    secrets: NDArray[np.uint64],
    cells: Cells,
) -> None:
    """Adds each row's id to the cell of blocks[its code]; `secrets` are two of `make_secret`, one below the other."""
    for row in range(len(codes)):
        if codes[row] >= 0:
            block = blocks[codes[row]]
            start, length = offsets[row], offsets[row + 1] - offsets[row]
            low, high = lanes_of(octets, start, length, secrets)
            check = hash_words(low, high, min(length, LONG), secrets[0])
            bucket = bucket_of(check, bucket_bits)
            cells[block, bucket, COUNT] += _U(1)
            cells[block, bucket, LOW] += low
            cells[block, bucket, HIGH] += high
            cells[block, bucket, CHECK] += check


@compiled
def mark_ids(
    octets: Octets,
    offsets: NDArray[np.int32],
    codes: NDArray[np.int32],
    blocks: NDArray[np.int32],
    bucket_bits: int,
    secrets: NDArray[np.uint64],
    wanted: NDArray[np.bool_],
    marks: NDArray[np.bool_],
) -> None:
    """Marks the rows whose cell is wanted; `wanted` has a flag by block and bucket. Block SKIPPED wants nothing."""
    for row in range(len(codes)):
        marks[row] = False
        block = blocks[codes[row]] if codes[row] >= 0 else SKIPPED
        if block >= 0:
            start, length = offsets[row], offsets[row + 1] - offsets[row]
            low, high = lanes_of(octets, start, length, secrets)
            check = hash_words(low, high, min(length, LONG), secrets[0])
            marks[row] = wanted[block, bucket_of(check, bucket_bits)]


@compiled
def check_of(low: Any, high: Any, length: int, secrets: NDArray[np.uint64]) -> Any:
    """The check of an id that is known by its lanes."""
    return hash_words(_U(low), _U(high), length, secrets[0])


@inlined
def lanes_of(octets: Octets, start: Any, length: Any, secrets: NDArray[np.uint64]) -> Any:
    """An id's two lanes."""
    low = high = _U(0)
    if length > LANES_BYTES:
        low = hash_bytes(octets, start, length, secrets[1])
        high = load_word(octets, start + length - 8)
    elif length > 8:
        low = load_word(octets, start)
        high = load_word(octets, start + length - 8) >> _U(8 * (LANES_BYTES - length))
    elif length == 8:
        low = load_word(octets, start)
    else:
        for at in range(length):
            low |= _U(octets[np.uintp(start + at)]) << _U(8 * at)
    return low, high


@inlined
def bucket_of(check: Any, bucket_bits: Any) -> Any:
    """Which cell of a block an id falls into."""
    # In two steps: a shift by all 64 bits has no meaning to the processor.
    return np.uintp((check >> _U(1)) >> _U(63 - bucket_bits))
