"""Record batches by the million, as fast as a compiled loop makes them: the log that compaction is measured on.

Every key is written again and again in random order; a record in twenty is a tombstone. A value is a hundred bytes:
sixty that all share, as field names are shared, and forty that nothing compresses.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdfast.records.batch import HEADER, HEADER_BYTES, LENGTH_STARTS_AT, MAGIC, Codec, seal
from holdfast.records.codecs import compress

BATCH_RECORDS: Final = 1_000
DRAWN_RECORDS: Final = 256 * BATCH_RECORDS
"""Random numbers are drawn for so many at once."""
VALUE_BYTES: Final = 100
SHARED_BYTES: Final = 60
TOMBSTONES: Final = 0.05
TIMESTAMP_MS: Final = 1_700_000_000_000
RECORD_BYTES_MAX: Final = 200
POOL_BYTES: Final = 1 << 20
SEED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How records look."""

    name: str
    codec: Codec = Codec.NONE
    key_bytes_min: int = 16
    key_bytes_max: int = 16


PLAIN: Final = Form(name="uncompressed")
LZ4: Final = Form(name="lz4", codec=Codec.LZ4)
VARIABLE: Final = Form(name="keys of 8 to 40 bytes", key_bytes_min=8, key_bytes_max=40)
FORMS: Final = (PLAIN, LZ4, VARIABLE)


def make_batches(form: Form, *, records: int, keys: int, seed: int = SEED) -> Iterator[bytearray]:
    """Whole batches, the same ones for the same arguments, offsets from 0 on in each."""
    chance = np.random.default_rng(seed)
    pool = chance.integers(0, 256, POOL_BYTES, np.uint8)
    room = np.empty(BATCH_RECORDS * RECORD_BYTES_MAX, np.uint8)
    lengths = (form.key_bytes_min, form.key_bytes_max)
    for first in range(0, records, DRAWN_RECORDS):
        count = min(DRAWN_RECORDS, records - first)
        numbers = chance.integers(0, keys, count, np.int64)
        places = chance.integers(0, POOL_BYTES - VALUE_BYTES, count, np.int64)
        is_tombstone = chance.random(count) < TOMBSTONES
        for start in range(0, count, BATCH_RECORDS):
            rows = slice(start, min(start + BATCH_RECORDS, count))
            end = _encode(numbers[rows], places[rows], is_tombstone[rows], *lengths, pool, room)
            yield _batch(room[:end], rows.stop - rows.start, form.codec)


def _batch(payload: NDArray[np.uint8], count: int, codec: Codec) -> bytearray:
    stored = compress(codec, payload.data) if codec else payload.data
    batch = bytearray(HEADER_BYTES + len(stored))
    length = len(batch) - LENGTH_STARTS_AT
    times = (TIMESTAMP_MS, TIMESTAMP_MS)
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, codec, count - 1, *times, -1, -1, -1, count)
    batch[HEADER_BYTES:] = stored
    seal(batch)
    return batch


@njit(nogil=True, cache=True)
def _varint(room: NDArray[np.uint8], at: int, number: int) -> int:
    left = (number << 1) ^ (number >> 63)
    while left >= 128:
        room[at] = (left & 127) | 128
        left >>= 7
        at += 1
    room[at] = left
    return at + 1


@njit(nogil=True, cache=True)
def _varint_bytes(number: int) -> int:
    left = (number << 1) ^ (number >> 63)
    size = 1
    while left >= 128:
        left >>= 7
        size += 1
    return size


@njit(nogil=True, cache=True)
def _encode(
    numbers: NDArray[np.int64],
    places: NDArray[np.int64],
    is_tombstone: NDArray[np.bool_],
    key_bytes_min: int,
    key_bytes_max: int,
    pool: NDArray[np.uint8],
    room: NDArray[np.uint8],
) -> int:
    """The records of a batch one after the other; where they end."""
    at = 0
    for row in range(len(numbers)):
        number = numbers[row]
        mixed = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
        key_bytes = key_bytes_min + np.int64(mixed >> np.uint64(40)) % (key_bytes_max - key_bytes_min + 1)
        value_bytes = -1 if is_tombstone[row] else VALUE_BYTES
        size = 3 + _varint_bytes(row) + _varint_bytes(key_bytes) + key_bytes + _varint_bytes(value_bytes)
        at = _varint(room, at, size + max(value_bytes, 0))
        room[at] = 0
        room[at + 1] = 0
        at = _varint(room, at + 2, row)
        at = _varint(room, at, key_bytes)
        for place in range(key_bytes):
            word = np.uint64(number) if place < 8 else mixed
            room[at + place] = np.uint8((word >> np.uint64(8 * (place & 7))) & np.uint64(255))
        at = _varint(room, at + key_bytes, value_bytes)
        if value_bytes > 0:
            room[at : at + SHARED_BYTES] = pool[:SHARED_BYTES]
            place = places[row]
            room[at + SHARED_BYTES : at + VALUE_BYTES] = pool[place : place + VALUE_BYTES - SHARED_BYTES]
            at += VALUE_BYTES
        room[at] = 0
        at += 1
    return at
