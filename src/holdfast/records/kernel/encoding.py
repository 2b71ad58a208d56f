"""Rows in columns → records as they stand in the payload of a batch.

The columns are trusted: Arrow has made them, and a caller has measured how much room their records need.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.records.kernel.jit import compiled
from holdfast.records.kernel.memory import Octets, copy_bytes

DELTA_BYTES_MAX = 5 + 1 + 10 + 5
"""A record's length, its attributes, and the deltas of its timestamp and offset."""


class Slices(NamedTuple):
    """Parts of a buffer, one for each row; a length of -1 is a null."""

    data: Octets
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]


class RowColumns(NamedTuple):
    """What records are made of. Row n has the headers from header_ends[n - 1] up to header_ends[n]."""

    key: Slices
    value: Slices
    timestamp: NDArray[np.int64]
    header_ends: NDArray[np.int64]
    header_name: Slices
    header_value: Slices


@compiled
def _varint_bytes(number: Any) -> Any:
    raw = np.uint64((number << 1) ^ (number >> 63))
    size = 1
    while raw >= np.uint64(0x80):
        raw >>= np.uint64(7)
        size += 1
    return size


@compiled
def _put_varint(output: Octets, at: Any, number: Any) -> Any:
    raw = np.uint64((number << 1) ^ (number >> 63))
    while raw >= np.uint64(0x80):
        output[at] = np.uint8((raw & np.uint64(0x7F)) | np.uint64(0x80))
        raw >>= np.uint64(7)
        at += 1
    output[at] = np.uint8(raw)
    return at + 1


@compiled
def _slice_bytes(length: Any) -> Any:
    return _varint_bytes(length) + max(length, 0)


@compiled
def _put_slice(output: Octets, at: Any, slices: Slices, row: Any) -> Any:
    length = np.int64(slices.lengths[row])
    at = _put_varint(output, at, length)
    if length > 0:
        copy_bytes(output, np.int64(at), slices.data, slices.starts[row], length)
        at += length
    return at


@compiled
def measure_rows(columns: RowColumns, sizes: NDArray[np.int64]) -> None:
    """The bytes of each row's key, value and headers: a record has up to DELTA_BYTES_MAX more."""
    first = np.int64(0)
    for row in range(len(sizes)):
        end = columns.header_ends[row]
        size = _slice_bytes(np.int64(columns.key.lengths[row]))
        size += _slice_bytes(np.int64(columns.value.lengths[row]))
        size += _varint_bytes(end - first)
        for header in range(first, end):
            size += _slice_bytes(np.int64(columns.header_name.lengths[header]))
            size += _slice_bytes(np.int64(columns.header_value.lengths[header]))
        sizes[row] = size
        first = end


@compiled
def encode_rows(
    columns: RowColumns, sizes: NDArray[np.int64], rows: NDArray[np.int64], output: Octets, at: int
) -> tuple[int, int]:
    """(end, greatest timestamp): the records of `rows`, in that order and without gaps, from `at` on."""
    base_timestamp = columns.timestamp[rows[0]]
    max_timestamp = base_timestamp
    for delta in range(len(rows)):
        row = rows[delta]
        timestamp = columns.timestamp[row]
        max_timestamp = max(max_timestamp, timestamp)
        apart = timestamp - base_timestamp
        at = _put_varint(output, at, 1 + _varint_bytes(apart) + _varint_bytes(delta) + sizes[row])
        output[at] = np.uint8(0)
        at = _put_varint(output, at + 1, apart)
        at = _put_varint(output, at, delta)
        at = _put_slice(output, at, columns.key, row)
        at = _put_slice(output, at, columns.value, row)
        first = columns.header_ends[row - 1] if row else np.int64(0)
        end = columns.header_ends[row]
        at = _put_varint(output, at, end - first)
        for header in range(first, end):
            at = _put_slice(output, at, columns.header_name, header)
            at = _put_slice(output, at, columns.header_value, header)
    return at, max_timestamp
