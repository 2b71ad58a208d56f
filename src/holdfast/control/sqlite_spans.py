"""Spans of extents in the SQLite control plane: searches by time and sums that do not look at every extent.

A span of level n holds the extents whose last offset, shifted right by 8 n bits, is its number; level 0 are the
extents themselves. The span of the newest extent is open on every level and has no row.
"""

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

SPAN_BITS = 8
LEVELS = 4

_CLOSE = (
    "INSERT INTO extent_spans SELECT topic, partition, 1, ?3, max(max_timestamp), sum(length_bytes) FROM extents"
    " WHERE topic = ?1 AND partition = ?2 AND last_offset >= ?3 << 8 AND last_offset < (?3 + 1) << 8"
    " GROUP BY topic, partition",
    "INSERT INTO extent_spans SELECT topic, partition, ?4, ?3, max(max_timestamp), sum(length_bytes)"
    " FROM extent_spans WHERE topic = ?1 AND partition = ?2 AND level = ?4 - 1"
    " AND span >= ?3 << 8 AND span < (?3 + 1) << 8 GROUP BY topic, partition",
)


class Piece(NamedTuple):
    """Spans [start, end) of a level."""

    level: int
    start: int
    end: int


def close_spans(writer: sqlite3.Connection, topic: int, partition: int, first: int, last: int) -> None:
    """Write the rows of spans that end with the extent before this one, which has just been appended."""
    if first == 0:
        return
    for level in range(1, LEVELS + 1):
        before, now = (first - 1) >> SPAN_BITS * level, last >> SPAN_BITS * level
        if before == now:
            return
        if level == 1:
            writer.execute(_CLOSE[0], (topic, partition, before))
        else:
            writer.execute(_CLOSE[1], (topic, partition, before, level))


def cover(start: int, end: int, newest: int, level: int = LEVELS) -> Iterator[Piece]:
    """The offsets [start, end), in order: the widest spans that have a row, and single extents where none fits.

    `newest` is the last offset of the newest extent: whatever span holds it has no row.
    """
    if start >= end:
        return
    if level == 0:
        yield Piece(0, start, end)
        return
    width = 1 << SPAN_BITS * level
    first, stop = -(-start // width), min(end // width, newest // width)
    if first < stop:
        yield from cover(start, first * width, newest, level - 1)
        yield Piece(level, first, stop)
        yield from cover(stop * width, end, newest, level - 1)
    else:
        yield from cover(start, end, newest, level - 1)


class SpanReader:
    """Questions about the extents of one partition in [start, end), in the snapshot of its connection.

    `start` must not lie below the log start, where extents are missing from spans, and `end` is the log end.
    """

    def __init__(
        self, reader: sqlite3.Connection, topic: int | None, partition: int, *, start: int, end: int
    ) -> None:
        self._reader = reader
        self._key = (topic, partition)
        self._start = start
        self._end = end

    def sum_bytes(self) -> int:
        """Bytes of all."""
        return sum(value or 0 for value in self._aggregate("sum(length_bytes)"))

    def find_max_timestamp(self) -> int | None:
        """The greatest of all."""
        found = [value for value in self._aggregate("max(max_timestamp)") if value is not None]
        return max(found, default=None)

    def find_first(self, timestamp_ms: int) -> int | None:
        """The last offset of the first extent with a record at or after the time."""
        for piece in cover(self._start, self._end, self._end - 1):
            found = self._find_first_in(piece, timestamp_ms)
            if found is None:
                continue
            for level in range(piece.level - 1, -1, -1):
                inside = Piece(level, found << SPAN_BITS, (found + 1) << SPAN_BITS)
                found = self._find_first_in(inside, timestamp_ms)
                assert found is not None, "a span has what its row says"
            return found
        return None

    def _aggregate(self, value: str) -> Iterator[int | None]:
        for piece in cover(self._start, self._end, self._end - 1):
            rows = f"SELECT {value} {_rows(piece.level)}"
            yield self._reader.execute(rows, (*self._key, piece.start, piece.end)).fetchone()[0]

    def _find_first_in(self, piece: Piece, timestamp_ms: int) -> int | None:
        number = "span" if piece.level else "last_offset"
        row = self._reader.execute(
            f"SELECT {number} {_rows(piece.level)} AND max_timestamp >= ? ORDER BY {number} LIMIT 1",
            (*self._key, piece.start, piece.end, timestamp_ms),
        ).fetchone()
        return None if row is None else int(row[0])


def _rows(level: int) -> str:
    if level == 0:
        return "FROM extents WHERE topic = ? AND partition = ? AND last_offset >= ? AND last_offset < ?"
    return (
        f"FROM extent_spans WHERE topic = ? AND partition = ? AND level = {level} AND span >= ? AND span < ?"
    )
