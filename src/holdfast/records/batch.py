"""The header of a record batch v2: read without copying, checked, and patched in place."""

import struct
from enum import IntEnum
from typing import Final

from holdfast.errors import CorruptBatch
from holdfast.records.buffers import ReadableBytes, WritableBytes
from holdfast.records.crc import crc32c

MAGIC: Final = 2
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
LENGTH_STARTS_AT: Final = 12
"""The length field counts from here: base offset and the length itself come before."""

LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

RECORD_BYTES_MIN: Final = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length, header count: a byte each."""

SEQUENCE_MASK: Final = 0x7FFFFFFF
NO_TIMESTAMP: Final = -1

_INT64_MAX: Final = 2**63 - 1
_MAGIC_FAULT: Final = "record format v{} is not read, only v2"
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")


class Codec(IntEnum):
    """How the records of a batch are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchView:
    """One batch's header as it stood when the view was made; `records` looks into the buffer itself.

    The constructor needs 61 readable bytes and checks nothing else: come through `validate` or `walk`.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    def __init__(self, buffer: ReadableBytes, position: int = 0) -> None:
        self.buffer: ReadableBytes = buffer
        self.position: int = position
        length: int
        self.base_offset: int
        self.leader_epoch: int
        self.magic: int
        self.crc: int
        self.attributes: int
        self.last_offset_delta: int
        self.base_timestamp: int
        self.max_timestamp: int
        self.producer_id: int
        self.producer_epoch: int
        self.base_sequence: int
        self.record_count: int
        try:
            (
                self.base_offset,
                length,
                self.leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = HEADER.unpack_from(buffer, position)
        except struct.error:
            raise CorruptBatch(_short_header(buffer, position), position) from None
        self.size_bytes: int = length + LENGTH_STARTS_AT

    def __repr__(self) -> str:
        offsets = f"{self.base_offset}..{self.last_offset}"
        return f"<batch {offsets}, {self.record_count} records, {self.size_bytes} bytes>"

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was written with, kept even when that record is gone."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where a reader goes on after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers wrap from 2³¹ - 1 to 0. -1 without a sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def codec(self) -> Codec:
        """Compression of the payload."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptBatch(f"unknown codec {self.attributes & CODEC_MASK}", self.position) from None

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record carries max_timestamp, the broker's time, instead of its own."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def first_timestamp(self) -> int:
        """The time of the record that it began with; its greatest where the header says something else there."""
        tells = not self.attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT)
        return self.base_timestamp if tells else self.max_timestamp

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker for readers instead of data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When Kafka's cleaner may drop this batch's tombstones (KIP-534), if it has been stamped."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def records(self) -> memoryview:
        """The payload, compressed as it is."""
        start = self.position
        return memoryview(self.buffer)[start + HEADER_BYTES : start + self.size_bytes]


def validate(buffer: ReadableBytes, position: int = 0) -> BatchView:
    """The batch at `position`, with its magic, length, CRC and counts checked; raises CorruptBatch."""
    view = BatchView(buffer, position)
    why = _length_fault(view, len(buffer)) or _checksum_fault(view) or _count_fault(view)
    if why:
        raise CorruptBatch(why, position)
    return view


def check_length(view: BatchView, end: int) -> None:
    """Raise CorruptBatch unless the batch is a whole v2 batch that ends at or before `end`."""
    why = _length_fault(view, end)
    if why:
        raise CorruptBatch(why, view.position)


def assign(buffer: WritableBytes, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log. Neither field is covered by the CRC, which stays as it is."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(buffer: WritableBytes, position: int, *, timestamp_ms: int) -> None:
    """Give all records of the batch the broker's time, and the batch a new CRC."""
    view = BatchView(buffer, position)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_AT, view.attributes | LOG_APPEND_TIME_BIT)
    _OFFSET.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buffer, position)


def seal(buffer: WritableBytes, position: int = 0) -> None:
    """Write the CRC that the batch's bytes now call for."""
    view = BatchView(buffer, position)
    _CRC.pack_into(buffer, position + CRC_AT, _checksum(view))


def _checksum(view: BatchView) -> int:
    start = view.position
    return crc32c(memoryview(view.buffer)[start + ATTRIBUTES_AT : start + view.size_bytes])


def _short_header(buffer: ReadableBytes, position: int) -> str:
    """Messages of v0 and v1 may be shorter than a header of v2, but have their magic at the same place."""
    left = max(0, len(buffer) - position)
    if left > MAGIC_AT and (magic := buffer[position + MAGIC_AT]) != MAGIC:
        return _MAGIC_FAULT.format(magic)
    return f"{left} bytes are too few for a batch header"


def _length_fault(view: BatchView, end: int) -> str | None:
    if view.magic != MAGIC:
        return _MAGIC_FAULT.format(view.magic)
    if view.size_bytes < HEADER_BYTES:
        return f"a batch of {view.size_bytes} bytes is shorter than its header"
    if view.position + view.size_bytes > end:
        return f"a batch of {view.size_bytes} bytes, of which only {end - view.position} are here"
    return None


def _checksum_fault(view: BatchView) -> str | None:
    checksum = _checksum(view)
    if checksum != view.crc:
        return f"CRC {view.crc:#010x} is declared, {checksum:#010x} was found"
    return None


def _count_fault(view: BatchView) -> str | None:
    codec = view.attributes & CODEC_MASK
    payload_bytes = view.size_bytes - HEADER_BYTES
    if codec > Codec.ZSTD:
        return f"unknown codec {codec}"
    if view.base_offset < 0 or not 0 <= view.last_offset_delta <= _INT64_MAX - view.base_offset - 1:
        return f"offsets from {view.base_offset}, last delta {view.last_offset_delta}"
    if not 0 <= view.record_count <= view.last_offset_delta + 1:
        return f"{view.record_count} records with a last offset delta of {view.last_offset_delta}"
    if codec == Codec.NONE and view.record_count * RECORD_BYTES_MIN > payload_bytes:
        return f"{view.record_count} records in {payload_bytes} bytes"
    if (view.record_count == 0) != (payload_bytes == 0):
        return f"{view.record_count} records in {payload_bytes} bytes"
    return None
