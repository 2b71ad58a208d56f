"""The sparse index of a segment: where in the file to begin to look for an offset or a time."""

import logging
import mmap
import os
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import CorruptBatch, CorruptIndex, FormatTooNew, StoreFailed
from holdfast.records.batch import NO_TIMESTAMP
from holdfast.records.buffers import ReadableBytes
from holdfast.records.crc import crc32c
from holdfast.records.walk import walk
from holdfast.store.durable import write_file
from holdfast.store.file_header import FILE_MAGIC, FileKind

logger = logging.getLogger(__name__)

INDEX_BYTES = 16 * 1024
"""Entries are at least so far apart, so that an index is small beside its segment."""

VERSION = 1

_HEADER = struct.Struct(">8sHHIQI")
_CRC = struct.Struct(">I")
_VALUE_BYTES = 8

HEADER_BYTES = _HEADER.size + _CRC.size
ENTRY_BYTES = 3 * _VALUE_BYTES


class IndexEntry(NamedTuple):
    """A batch of the segment: its base offset, its position, and the greatest timestamp up to its end."""

    offset: int
    position: int
    max_timestamp: int


def index_entries(batches: ReadableBytes, *, max_timestamp: int = NO_TIMESTAMP) -> list[IndexEntry]:
    """The entries for a buffer of whole batches, positions counted from its start, found by walking headers.

    `max_timestamp` is the greatest of the batches before. CorruptBatch if the buffer is not made of batches.
    """
    entries: list[IndexEntry] = []
    next_position = 0
    for batch in walk(batches):
        max_timestamp = max(max_timestamp, batch.max_timestamp)
        if batch.position >= next_position:
            entries.append(IndexEntry(batch.base_offset, batch.position, max_timestamp))
            next_position = batch.position + INDEX_BYTES
    return entries


class SegmentIndex:
    """An index in memory: 24 bytes for every 16 KiB of its segment at most."""

    __slots__ = ("_offsets", "_positions", "_timestamps", "length_bytes")

    def __init__(self, entries: Iterable[tuple[int, int, int]], *, length_bytes: int) -> None:
        offsets, positions, timestamps = array("q"), array("q"), array("q")
        for offset, position, max_timestamp in entries:
            offsets.append(offset)
            positions.append(position)
            timestamps.append(max_timestamp)
        self._offsets, self._positions, self._timestamps = offsets, positions, timestamps
        self.length_bytes = length_bytes
        """Bytes of the segment."""

    @property
    def entries(self) -> list[IndexEntry]:
        """All entries in order."""
        return list(map(IndexEntry, self._offsets, self._positions, self._timestamps))

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, and about as many in memory."""
        return HEADER_BYTES + ENTRY_BYTES * len(self._offsets)

    def find(self, offset: int) -> int:
        """A position from which a walk over batches comes to `offset`, with little before it."""
        return self._position(bisect_right(self._offsets, offset))

    def find_time(self, timestamp_ms: int) -> int:
        """A position from which a walk comes to the first record of that time or later, if there is one."""
        return self._position(bisect_left(self._timestamps, timestamp_ms))

    def _position(self, entries_before: int) -> int:
        return self._positions[entries_before - 1] if entries_before else 0

    def encode(self) -> bytes:
        """The index as a file."""
        columns = b"".join(map(_to_bytes, (self._offsets, self._positions, self._timestamps)))
        head = _HEADER.pack(
            FILE_MAGIC, FileKind.INDEX, VERSION, len(self._offsets), self.length_bytes, crc32c(columns)
        )
        return head + _CRC.pack(crc32c(head)) + columns

    @classmethod
    def load(cls, path: Path) -> "SegmentIndex":
        """The index at `path`: StoreFailed if it cannot be read, CorruptIndex if it is damaged.

        FormatTooNew if its header is sound and of a newer version. The entries are read once the header holds.
        """
        try:
            with path.open("rb") as file:
                size_bytes = os.fstat(file.fileno()).st_size
                count, length_bytes, checksum = _decode_head(file.read(HEADER_BYTES), size_bytes)
                columns = file.read(count * ENTRY_BYTES)
        except OSError as failure:
            raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
        if len(columns) != count * ENTRY_BYTES or crc32c(columns) != checksum:
            raise CorruptIndex("index CRC mismatch", HEADER_BYTES)
        index = cls((), length_bytes=length_bytes)
        width = count * _VALUE_BYTES
        index._offsets = _from_bytes(columns[:width])
        index._positions = _from_bytes(columns[width : 2 * width])
        index._timestamps = _from_bytes(columns[2 * width :])
        return index


def rebuild_index(segment: Path) -> SegmentIndex:
    """Make the index of a segment anew from its batches, and put it beside the file if that can be done.

    StoreFailed if the segment cannot be read or is not made of batches.
    """
    try:
        with segment.open("rb") as file:
            length_bytes = os.fstat(file.fileno()).st_size
            entries = _walk_file(file.fileno()) if length_bytes else []
    except OSError as failure:
        raise StoreFailed(f"cannot read {segment}: {failure.strerror}") from failure
    except CorruptBatch as failure:
        raise StoreFailed(f"{segment} is damaged: {failure}") from failure
    index = SegmentIndex(entries, length_bytes=length_bytes)
    path = index_path(segment)
    try:
        write_file(path, index.encode())
        # Whoever deletes a segment deletes the index before and after it: one of us is the last.
        if not segment.exists():
            path.unlink()
    except OSError as failure:
        logger.warning("the index of %s is kept in memory only: %s", segment, failure)
    return index


def index_path(segment: Path) -> Path:
    """Where the index of a segment lies."""
    return segment.with_suffix(".index")


def _walk_file(file: int) -> list[IndexEntry]:
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as batches:
        return index_entries(batches)


def _decode_head(head: bytes, size_bytes: int) -> tuple[int, int, int]:
    """(number of entries, bytes of the segment, CRC of the entries); CorruptIndex, FormatTooNew."""
    if len(head) < HEADER_BYTES:
        raise CorruptIndex("an index shorter than its header")
    magic, kind, version, count, length_bytes, checksum = _HEADER.unpack_from(head)
    if magic != FILE_MAGIC or kind != FileKind.INDEX:
        raise CorruptIndex("not an index of Holdfast")
    if _CRC.unpack_from(head, _HEADER.size)[0] != crc32c(head[: _HEADER.size]):
        raise CorruptIndex("index header CRC mismatch")
    if version > VERSION:
        raise FormatTooNew(f"index version {version} is newer than {VERSION}: use a newer Holdfast")
    if size_bytes != HEADER_BYTES + count * ENTRY_BYTES:
        raise CorruptIndex(f"{count} entries in an index of {size_bytes} bytes")
    return count, length_bytes, checksum


def _to_bytes(column: "array[int]") -> bytes:
    return _big_endian(array("q", column)).tobytes()


def _from_bytes(data: bytes) -> "array[int]":
    return _big_endian(array("q", data))


def _big_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        column.byteswap()
    return column
