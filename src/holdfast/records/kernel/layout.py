"""What kernels hand each other: the table of batches, the columns of records, and faults."""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

BATCH: Final = np.dtype(
    [
        ("position", np.int64),
        ("size_bytes", np.int64),
        ("payload_start", np.int64),
        ("payload_end", np.int64),
        ("base_offset", np.int64),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("last_offset_delta", np.int32),
        ("base_sequence", np.int32),
        ("record_count", np.int32),
        ("row_count", np.int32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
    ],
    align=True,
)
"""One batch. `position` counts in the buffer it came from, `payload_*` in the one that holds it inflated;
`row_count` is how many of its records a scan reported."""


Mask: TypeAlias = NDArray[np.bool_]
Allocate: TypeAlias = Callable[[int], NDArray[np.uint8]]


def _allocate(count: int) -> NDArray[np.uint8]:
    return np.empty(count, np.uint8)


class Columns(NamedTuple):
    """Where the fields of each record lie: a slice is a start and a length, and a length of -1 is null.

    Headers follow the value: first their count once more, then the headers.
    """

    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    key_start: NDArray[np.int64]
    key_bytes: NDArray[np.int32]
    value_start: NDArray[np.int64]
    value_bytes: NDArray[np.int32]
    header_count: NDArray[np.int32]

    @classmethod
    def empty(cls, count: int, allocate: Allocate = _allocate) -> "Columns":
        """Room for `count` records in two pieces: what tables keep, and what only leads to it.

        Two and not seven, because malloc reuses large pieces, and fresh pages cost as much as a scan.
        """
        offset, timestamp = allocate(2 * 8 * count).view(np.int64).reshape(2, count)
        slices = allocate((2 * 8 + 3 * 4) * count)
        key_start, value_start = slices[: 2 * 8 * count].view(np.int64).reshape(2, count)
        key_bytes, value_bytes, header_count = slices[2 * 8 * count :].view(np.int32).reshape(3, count)
        return cls(
            offset=offset,
            timestamp=timestamp,
            key_start=key_start,
            key_bytes=key_bytes,
            value_start=value_start,
            value_bytes=value_bytes,
            header_count=header_count,
        )

    def head(self, rows: int) -> "Columns":
        """The first rows, without a copy."""
        return Columns._make(column[:rows] for column in self)


class Wanted(NamedTuple):
    """What a scan reports: records with offsets in [start, end) of the marked batches."""

    batches: Mask
    start: int
    end: int
    check_crcs: bool


class Keep(NamedTuple):
    """What a rewrite keeps: a flag for every data record, and one for every batch that may stay empty."""

    records: Mask
    empties: Mask
    check_crcs: bool
    check_dropped: bool
    """Whether batches that keep nothing are checked, too."""


class Fault(IntEnum):
    """The first thing that a kernel found wrong."""

    NONE = 0
    SHORT_HEADER = 1
    MAGIC = 2
    SIZE = 3
    CODEC = 4
    OFFSETS = 5
    COUNT = 6
    CRC = 7
    RECORD_LENGTH = 8
    RECORD_OFFSET = 9
    RECORD_FIELDS = 10
    LEFT_OVER = 11


FAULTS: Final = {
    Fault.SHORT_HEADER: "too few bytes for a batch header",
    Fault.MAGIC: "not record format v2",
    Fault.SIZE: "a batch shorter than its header, or longer than the buffer",
    Fault.CODEC: "unknown codec",
    Fault.OFFSETS: "impossible offsets in a batch header",
    Fault.COUNT: "a record count that contradicts the batch's offsets or bytes",
    Fault.CRC: "the CRC does not fit the bytes",
    Fault.RECORD_LENGTH: "a record that is too short, or longer than its batch",
    Fault.RECORD_OFFSET: "a record offset out of order",
    Fault.RECORD_FIELDS: "a record whose fields do not add up to its length",
    Fault.LEFT_OVER: "bytes left over after the last record",
}
