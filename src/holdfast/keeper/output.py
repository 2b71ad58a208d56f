"""The segments that one rewrite leaves: rolled by size, each covering its range of offsets without a hole."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InflatesTooFar
from holdfast.keeper.chunks import INFLATED_BYTES
from holdfast.keeper.work import NewSegment
from holdfast.records.batch import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT
from holdfast.records.kernel.load import as_octets, index
from holdfast.records.kernel.tombstones import find_tombstones
from holdfast.store.segment import SegmentWriter, segment_file, segment_path
from holdfast.store.segment_index import INDEX_BYTES, index_path

NONE = -1
"""No tombstone, or no time."""


@dataclass(slots=True)
class _Current:
    """The segment that is being written."""

    writer: SegmentWriter
    first: int
    length_bytes: int = 0
    records: int = 0
    first_timestamp: int = NONE
    max_timestamp: int = NONE
    first_tombstone: int = NONE


@dataclass(slots=True, kw_only=True)
class SegmentRun:
    """Takes batches in the order of offsets; `finish` makes the last segment durable and tells of all."""

    directory: Path
    topic_id: UUID
    partition: int
    lease: int
    segment_bytes_max: int
    surveys: bool
    """Whether to look for tombstones; in a log that is not compacted nobody asks for them."""
    _start: int = 0
    """The first offset that no segment covers yet."""
    _current: _Current | None = None
    _added: list[NewSegment] = field(default_factory=list)

    def begin(self, first: int) -> None:
        """The run covers offsets from here on."""
        self._start = first

    def append(self, batches: memoryview) -> None:
        """Whole batches as they are to be stored. A segment has at least one, however large."""
        table = index(as_octets(batches))
        ends = table["position"] + table["size_bytes"]
        at = 0
        while at < len(table):
            start = int(table["position"][at])
            room = self.segment_bytes_max - (self._current.length_bytes if self._current else 0)
            fitting = int(np.searchsorted(ends, start + room, side="right"))
            if fitting <= at and self._current is not None:
                self._close(int(table["base_offset"][at]))
                continue
            fitting = max(fitting, at + 1)
            self._write(batches[start : ends[fitting - 1]], table[at:fitting])
            at = fitting

    def leave(self, first: int, end: int) -> None:
        """A segment that stays as it is covers [first, end)."""
        self._close(first)
        self._start = end

    def finish(self, end: int) -> tuple[NewSegment, ...]:
        """The run covers offsets up to `end`; all its segments are durable then."""
        self._close(end)
        return tuple(self._added)

    def abandon(self) -> None:
        """The run failed: take away what can be taken away. What stays is an orphan."""
        if self._current is not None:
            self._current.writer.abandon()
        for segment in self._added:
            path = segment_path(self.directory, segment.file)
            with suppress(OSError):
                index_path(path).unlink()
                path.unlink()

    def _write(self, batches: memoryview, table: NDArray[np.void]) -> None:
        current = self._current = self._current or self._open()
        current.writer.append(batches, list(_entries(table, current.max_timestamp)))
        current.length_bytes += len(batches)
        if current.records == 0:
            current.first_timestamp = _first_timestamp(table)
        current.records += int(table["record_count"].sum(dtype=np.int64))
        current.max_timestamp = max(current.max_timestamp, int(table["max_timestamp"].max()))
        if self.surveys and current.first_tombstone == NONE:
            current.first_tombstone = _first_tombstone(batches, table)

    def _open(self) -> _Current:
        file = segment_file(self.topic_id, self.partition, self._start, self.lease, uuid4().hex)
        return _Current(SegmentWriter(self.directory, file), self._start)

    def _close(self, end: int) -> None:
        """The current segment ends at `end`. A range without a record still has a segment, an empty one."""
        if end == self._start:
            return
        current = self._current = self._current or self._open()
        written = current.writer.finish()
        self._added.append(
            NewSegment(
                first=current.first,
                end=end,
                file=written.file,
                length_bytes=written.length_bytes,
                max_timestamp=current.max_timestamp,
                records=current.records,
                first_tombstone=current.first_tombstone,
                crc=written.crc,
                first_timestamp=current.first_timestamp,
            )
        )
        self._start = end
        self._current = None


def _first_timestamp(table: NDArray[np.void]) -> int:
    """Of the first batch: what `BatchView.first_timestamp` says."""
    tells = not table["attributes"][0] & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT)
    return int(table["base_timestamp" if tells else "max_timestamp"][0])


def _first_tombstone(batches: memoryview, table: NDArray[np.void]) -> int:
    """Its offset, or NONE; batches that inflate to too much are looked at by halves."""
    try:
        offsets = find_tombstones(batches, inflated_total_bytes_max=INFLATED_BYTES).offsets
        return int(offsets[0]) if len(offsets) else NONE
    except InflatesTooFar:
        assert len(table) > 1, table
        half = len(table) // 2
        middle = int(table["position"][half] - table["position"][0])
        found = _first_tombstone(batches[:middle], table[:half])
        return found if found != NONE else _first_tombstone(batches[middle:], table[half:])


def _entries(table: NDArray[np.void], max_timestamp: int) -> Iterator[tuple[int, int, int]]:
    """(offset, position from the first batch on, greatest time up to its end) of one batch every INDEX_BYTES."""
    positions = table["position"] - table["position"][0]
    starts = np.flatnonzero(np.diff(positions // INDEX_BYTES, prepend=-1))
    times = np.maximum(np.maximum.accumulate(table["max_timestamp"]), max_timestamp)
    for at in starts:
        yield int(table["base_offset"][at]), int(positions[at]), int(times[at])
