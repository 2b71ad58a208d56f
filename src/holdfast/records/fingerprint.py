"""What a record says, in 64 bits: equal for records that say the same, however their batches are packed.

Value, headers, time and kind of time count. Key and offset do not: who compares records knows them already.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.records.kernel.hashing import make_secret
from holdfast.records.kernel.load import as_octets
from holdfast.records.kernel.prints import as_offsets, hash_slices

COLUMNS = ("value", "headers", "timestamp", "timestamp_type")
"""What `records.arrow.decode` has to decode for it."""

Prints = NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


def fingerprint(batch: pa.RecordBatch, seed: int) -> Prints:
    """One for each row of a decoded batch. Nobody who does not know the seed can choose records that look alike."""
    secret = make_secret(seed)
    prints = _mix(
        _hash(batch["value"], secret), batch["timestamp"].view(pa.int64()).to_numpy().view(np.uint64)
    )
    prints = _mix(prints, batch["timestamp_type"].to_numpy().astype(np.uint64))
    return _mix(prints, _hash_headers(batch["headers"], secret))


def fingerprint_entries(batch: pa.RecordBatch, seed: int) -> Prints:
    """What a record makes of its key: of key, value and offset, one for each row that has these columns."""
    secret = make_secret(seed)
    prints = _mix(_hash(batch["key"], secret), _hash(batch["value"], secret))
    return _mix(prints, batch["offset"].to_numpy().view(np.uint64))


def _hash_headers(headers: pa.ListArray, secret: NDArray[np.uint64]) -> Prints:
    """Of each record's headers together; 0 where there are none. The same ones in another order are others."""
    totals = np.zeros(len(headers), np.uint64)
    entries = headers.flatten()
    if len(entries):
        offsets = headers.offsets.to_numpy() - headers.offsets[0].as_py()
        counts = np.diff(offsets)
        order = (np.arange(len(entries)) - np.repeat(offsets[:-1], counts)).astype(np.uint64)
        names = entries.field("key").cast(pa.binary())
        told = _mix(_mix(_hash(names, secret), _hash(entries.field("value"), secret)), order)
        np.add.at(totals, np.repeat(np.arange(len(counts)), counts), told)
    return totals


def _hash(strings: pa.Array, secret: NDArray[np.uint64]) -> Prints:
    """Of each string; null is not the empty one."""
    prints = np.empty(len(strings), np.uint64)
    _, offsets, data = strings.buffers()
    start = strings.offset
    octets = as_octets(data) if data is not None and data.size else np.zeros(1, np.uint8)
    octets.flags.writeable = False
    hash_slices(octets, as_offsets(offsets)[start : start + len(strings) + 1], secret, prints)
    if strings.null_count:
        prints[strings.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return prints


def _mix(one: Prints, other: Prints) -> Prints:
    """Order matters; what wraps around is meant to."""
    mixed = (one ^ (other + _NULL)) * _ODD
    return (mixed ^ (mixed >> _HALF)) * _ODD + other
