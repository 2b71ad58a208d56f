"""Reading the log in the SQLite control plane: bounds, extents, segments, and searches by time."""

import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar
from uuid import UUID

from holdfast.control.plane import EXTENTS_PER_PLAN_MAX, Extent, LogBounds
from holdfast.control.replica_rules import KeptReplica
from holdfast.control.replicas import Grant, Segment, check_extents_left
from holdfast.control.sqlite_replicas import IS_MEMBER
from holdfast.control.sqlite_spans import SpanReader
from holdfast.control.sqlite_transactions import FIRST_OPEN, OUTCOMES
from holdfast.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store.store import Place

Piece = TypeVar("Piece")

PLACE = struct.Struct(">IQQ")
"""A store, a file of it, and a position: one of those that the column `places` is made of."""

_EXTENT_COLUMNS = (
    "first_offset, last_offset, places, length_bytes, max_timestamp, instance, outcome, first_timestamp"
)
_EXTENTS = "extents LEFT JOIN instances USING (instance)"
_SEGMENT_COLUMNS = (
    "first_offset, end_offset, file, length_bytes, max_timestamp, records, first_tombstone, crc,"
    " lineage, mtro, mxro, tombstones_end, first_timestamp"
)
_SEGMENTS = "segments WHERE topic = ? AND partition = ? AND store = ? AND end_offset > ?"


Members = Mapping[int, KeptReplica]
"""The replicas of a partition whose stores are not fenced, by store; without what says how clean they are."""


class LogReader:
    """The verbs that read the log; `connect` gives the calling thread's own connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], topic_rows: dict[UUID, int]) -> None:
        self._connect = connect
        self._topic_rows = topic_rows

    def find_bounds(self, topic_id: UUID, partition: int) -> LogBounds:
        """Where a partition's log begins, is stable and ends."""
        bounds = read_bounds(self._connect(), self._topic_rows.get(topic_id), partition)
        if bounds is None:
            raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
        return bounds

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds and extents from `offset` on, in one snapshot."""
        with self._snapshot():
            bounds = self.find_bounds(topic_id, partition)
            if not bounds.start <= offset < bounds.end:
                return bounds, []
            plan = _Plan[Extent](bytes_max)
            members = self._find_members(topic_id, partition)
            for extent in self._extents_from(topic_id, partition, offset, members):
                if plan.add(extent, extent.length_bytes):
                    break
            return bounds, plan.pieces

    def find_pieces(
        self, topic_id: UUID, partition: int, store: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Segment | Extent]]:
        """Bounds, segments and extents from `offset` on, in one snapshot."""
        with self._snapshot():
            bounds = self.find_bounds(topic_id, partition)
            members = self._find_members(topic_id, partition)
            replica = self._get_replica(topic_id, partition, store, members)
            if not bounds.start <= offset < bounds.end:
                return bounds, []
            plan = _Plan[Segment | Extent](bytes_max)
            for segment in self._segments_from(topic_id, partition, store, offset):
                counts = segment.first >= offset and segment.length_bytes > 0
                if plan.add(segment, segment.length_bytes if counts else None):
                    return bounds, plan.pieces
            held = replica.held(bounds.start, bounds.end)
            for extent in self._extents_from(topic_id, partition, max(offset, replica.settled_to), members):
                if extent.last >= held or plan.add(extent, extent.length_bytes):
                    break
            return bounds, plan.pieces

    def find_logs(
        self, wanted: Sequence[tuple[UUID, int, int]], extents_max: int
    ) -> list[tuple[LogBounds, list[Segment | Extent]]]:
        """All of several replicas, in one snapshot."""
        found = []
        with self._snapshot():
            for topic_id, partition, store in wanted:
                bounds = self.find_bounds(topic_id, partition)
                members = self._find_members(topic_id, partition)
                replica = self._get_replica(topic_id, partition, store, members)
                held = replica.held(bounds.start, bounds.end)
                pieces: list[Segment | Extent] = []
                pieces += self._segments_from(topic_id, partition, store, bounds.start)
                offset = max(bounds.start, replica.settled_to)
                while offset < held:
                    extents = list(self._extents_from(topic_id, partition, offset, members))
                    kept = [extent for extent in extents if extent.last < held]
                    extents_max -= len(kept)
                    check_extents_left(extents_max)
                    pieces += kept
                    if not kept:
                        break
                    offset = kept[-1].end
                found.append((bounds, pieces))
        return found

    def find_segments(self, topic_id: UUID, partition: int, store: int, offset: int) -> list[Segment]:
        """The segments of a partition on a store from `offset` on."""
        return list(self._segments_from(topic_id, partition, store, offset))

    def find_size(self, topic_id: UUID, partition: int, store: int) -> int:
        """Bytes of the partition on the store."""
        with self._snapshot() as reader:
            try:
                bounds = self.find_bounds(topic_id, partition)
                members = self._find_members(topic_id, partition)
                replica = self._get_replica(topic_id, partition, store, members)
            except (UnknownTopicOrPartition, NotLeaderOrFollower):
                return 0
            in_segments: int = reader.execute(
                f"SELECT coalesce(sum(length_bytes), 0) FROM {_SEGMENTS}",  # noqa: S608 (a constant)
                (*self._key(topic_id, partition), store, bounds.start),
            ).fetchone()[0]
            return in_segments + self._spans(topic_id, partition, bounds, replica, 0).sum_bytes()

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, store: int, offset: int, timestamp_ms: int
    ) -> Segment | Extent | None:
        """The first piece that holds a record at or after the time."""
        with self._snapshot():
            bounds = self.find_bounds(topic_id, partition)
            members = self._find_members(topic_id, partition)
            replica = self._get_replica(topic_id, partition, store, members)
            found = self._find_segment(topic_id, partition, store, offset, timestamp_ms)
            if found is not None:
                return found
            last = self._spans(topic_id, partition, bounds, replica, offset).find_first(timestamp_ms)
            return None if last is None else next(self._extents_from(topic_id, partition, last, members))

    def find_extent_of_max_time(
        self, topic_id: UUID, partition: int, store: int, offset: int
    ) -> Segment | Extent | None:
        """The first piece that holds the greatest timestamp."""
        with self._snapshot() as reader:
            bounds = self.find_bounds(topic_id, partition)
            members = self._find_members(topic_id, partition)
            replica = self._get_replica(topic_id, partition, store, members)
            spans = self._spans(topic_id, partition, bounds, replica, offset)
            in_segments: int | None = reader.execute(
                f"SELECT max(max_timestamp) FROM {_SEGMENTS}",  # noqa: S608 (a constant)
                (*self._key(topic_id, partition), store, offset),
            ).fetchone()[0]
            above = spans.find_max_timestamp()
            if in_segments is not None and (above is None or in_segments >= above):
                return self._find_segment(topic_id, partition, store, offset, in_segments)
            last = None if above is None else spans.find_first(above)
            return None if last is None else next(self._extents_from(topic_id, partition, last, members))

    def _key(self, topic_id: UUID, partition: int) -> tuple[int | None, int]:
        return self._topic_rows.get(topic_id), partition

    def _find_members(self, topic_id: UUID, partition: int) -> Members:
        rows = self._connect().execute(
            "SELECT store, settled_to, held_to, joined_from FROM replicas LEFT JOIN stores USING (store)"  # noqa: S608
            f" WHERE topic = ? AND partition = ? AND {IS_MEMBER}",
            self._key(topic_id, partition),
        )
        return {
            store: KeptReplica(settled_to=settled_to, held_to=held_to, joined_from=joined_from)
            for store, settled_to, held_to, joined_from in rows
        }

    def _get_replica(self, topic_id: UUID, partition: int, store: int, members: Members) -> KeptReplica:
        if store not in members:
            raise NotLeaderOrFollower(f"store {store} does not serve partition {partition} of {topic_id}")
        return members[store]

    def _extents_from(
        self, topic_id: UUID, partition: int, offset: int, members: Members
    ) -> Iterator[Extent]:
        rows = self._connect().execute(
            f"SELECT {_EXTENT_COLUMNS} FROM {_EXTENTS}"  # noqa: S608 (a constant)
            " WHERE topic = ? AND partition = ? AND last_offset >= ? ORDER BY last_offset LIMIT ?",
            (*self._key(topic_id, partition), offset, EXTENTS_PER_PLAN_MAX),
        )
        return (_extent(row, members) for row in rows)

    def _segments_from(self, topic_id: UUID, partition: int, store: int, offset: int) -> Iterator[Segment]:
        rows = self._connect().execute(
            f"SELECT {_SEGMENT_COLUMNS} FROM {_SEGMENTS} ORDER BY end_offset",  # noqa: S608 (constants)
            (*self._key(topic_id, partition), store, offset),
        )
        return map(_segment, rows)

    def _find_segment(
        self, topic_id: UUID, partition: int, store: int, offset: int, timestamp_ms: int
    ) -> Segment | None:
        """The first with a record at or after the time."""
        row = (
            self._connect()
            .execute(
                f"SELECT {_SEGMENT_COLUMNS} FROM {_SEGMENTS} AND max_timestamp >= ?"  # noqa: S608 (constants)
                " ORDER BY end_offset LIMIT 1",
                (*self._key(topic_id, partition), store, offset, timestamp_ms),
            )
            .fetchone()
        )
        return row and _segment(row)

    def _spans(
        self, topic_id: UUID, partition: int, bounds: LogBounds, replica: KeptReplica, offset: int
    ) -> SpanReader:
        key = self._key(topic_id, partition)
        # Below, extents may be missing, of which spans know nothing.
        trimmed_to: int = (
            self._connect()
            .execute("SELECT trimmed_to FROM removals WHERE topic = ? AND partition = ?", key)
            .fetchone()[0]
        )
        start = max(offset, bounds.start, replica.settled_to, trimmed_to)
        return SpanReader(self._connect(), *key, start=start, end=bounds.end)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection, with one state of things until the end."""
        reader = self._connect()
        reader.execute("BEGIN")
        try:
            yield reader
        finally:
            reader.execute("COMMIT")


class _Plan(Generic[Piece]):
    """Pieces until they have so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.pieces: list[Piece] = []
        self._bytes_left = bytes_max

    def add(self, piece: Piece, length_bytes: int | None) -> bool:
        """Whether it is the last; without a length it never is, unless there are too many."""
        self.pieces.append(piece)
        self._bytes_left -= length_bytes or 0
        is_enough = length_bytes is not None and self._bytes_left <= 0
        return is_enough or len(self.pieces) == EXTENTS_PER_PLAN_MAX


def read_bounds(connection: sqlite3.Connection, topic: int | None, partition: int) -> LogBounds | None:
    """Where the log of a partition begins, is stable and ends, if there is such."""
    row = connection.execute(
        f"SELECT log_start, log_end, leader_epoch, ({FIRST_OPEN})"  # noqa: S608 (a constant)
        " FROM partitions WHERE topic = :topic AND partition = :partition",
        {"topic": topic, "partition": partition},
    ).fetchone()
    if row is None:
        return None
    start, end, leader_epoch, first_open = row
    # DeleteRecords may pass the beginning of an open transaction; nothing below the log start is waited for.
    last_stable = max(last_stable_offset(end, first_open), start)
    return LogBounds(start=start, end=end, last_stable=last_stable, leader_epoch=leader_epoch)


def _extent(row: tuple[int, int, bytes, int, int, int | None, int | None, int], members: Members) -> Extent:
    first, last, places, length_bytes, max_timestamp, instance, outcome, first_timestamp = row
    return Extent(
        first=first,
        last=last,
        places={
            store: Place(journal=journal, position=position)
            for store, journal, position in PLACE.iter_unpack(places)
            if store in members and members[store].has(first, last)
        },
        length_bytes=length_bytes,
        max_timestamp=max_timestamp,
        instance=NO_INSTANCE if instance is None else instance,
        outcome=None if outcome is None else OUTCOMES[outcome],
        first_timestamp=first_timestamp,
    )


def _segment(row: tuple[int, int, str, int, int, int, int, int, int, int, int, int, int]) -> Segment:
    return Segment(
        first=row[0],
        end=row[1],
        file=row[2],
        length_bytes=row[3],
        max_timestamp=row[4],
        records=row[5],
        first_tombstone=row[6],
        crc=row[7],
        grant=Grant(lineage=row[8], mtro=row[9], mxro=row[10], tombstones_end=row[11]),
        first_timestamp=row[12],
    )
