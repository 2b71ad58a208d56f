"""Segments and carried extents in the SQLite control plane: what keepers publish, inside of a frame's transaction."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from uuid import UUID

from holdfast.control.replica_rules import publish
from holdfast.control.sqlite_log import PLACE, read_bounds
from holdfast.control.sqlite_replicas import PlaceOf, ReplicaRows
from holdfast.control.sqlite_topics import TopicTable
from holdfast.errors import CommitRefused
from holdfast.store.replica_changes import CarriedExtent, ExtentsCarried, SegmentsPublished
from holdfast.store.store import CARRIED

_OF_REPLICA = "topic = ? AND partition = ? AND store = ?"


class SegmentTable:
    """Applies what keepers have made of extents."""

    def __init__(self, writer: sqlite3.Connection, topics: TopicTable, rows: ReplicaRows) -> None:
        self._writer = writer
        self._topics = topics
        self._rows = rows

    def publish(self, change: SegmentsPublished) -> None:
        """A replica's next manifest, and what follows from it for the group."""
        place = (self._topics.get(change.topic_id), change.partition)
        bounds, replica = read_bounds(self._writer, *place), self._rows.find(place, change.store)
        store = self._rows.get_store(change.store)
        if bounds is None or replica is None:
            raise CommitRefused(f"store {change.store} does not hold {change.topic_id}/{change.partition}")
        group = self._rows.get_group(place)
        replica = publish(
            change,
            store=store,
            replica=replica,
            group=group,
            bounds=bounds,
            present=self._find_present(place, change.store),
        )
        self._replace(place, change)
        self._rows.put(place, change.store, replica)
        self._rows.recompute(place, change.at_ms, group)
        self._writer.execute("UPDATE grace SET elapsed_ms = max(elapsed_ms, ?)", (change.at_ms,))

    def carry(self, change: ExtentsCarried) -> None:
        """Other places of extents on one store; a joining replica holds what follows without a hole."""
        self._rows.get_store(change.store).check_writer(change.incarnation, change.lease)
        carried: defaultdict[tuple[UUID, int], list[CarriedExtent]] = defaultdict(list)
        for extent in change.extents:
            carried[extent.topic_id, extent.partition].append(extent)
        for (topic_id, partition), extents in carried.items():
            place = (self._topics.get(topic_id), partition)
            replica, bounds = self._rows.find(place, change.store), read_bounds(self._writer, *place)
            last = max(extent.last for extent in extents)
            if bounds is None or last >= bounds.end or replica is None:
                raise CommitRefused(
                    f"{topic_id}/{partition} has no extent up to {last} for store {change.store}"
                )
            moved = [*self._move(place, change.store, change.file, extents)]
            if moved:
                self._rows.put(place, change.store, replica.carried(bounds.start, moved))

    def _move(
        self, place: PlaceOf, store: int, file: int, extents: Sequence[CarriedExtent]
    ) -> Iterator[tuple[int, int]]:
        """First and last offsets of those that are there; nobody will look for one that has been trimmed."""
        for extent in extents:
            row = self._writer.execute(
                "SELECT first_offset, places FROM extents"
                " WHERE topic = ? AND partition = ? AND last_offset = ?",
                (*place, extent.last),
            ).fetchone()
            if row is None:
                continue
            first, places = row
            self._writer.execute(
                "UPDATE extents SET places = ?, is_carried = 1 WHERE topic = ? AND partition = ? AND last_offset = ?",
                (
                    without_place(places, store) + PLACE.pack(store, file, extent.position),
                    *place,
                    extent.last,
                ),
            )
            yield first, extent.last

    def drop(self, place: PlaceOf, store: int) -> None:
        """The segments that a store had of a partition. Where extents lay there counts no longer: `KeptReplica.has`."""
        self._writer.execute(f"DELETE FROM segments WHERE {_OF_REPLICA}", (*place, store))  # noqa: S608

    def _find_present(self, place: PlaceOf, store: int) -> dict[str, tuple[int, int]]:
        rows = self._writer.execute(
            f"SELECT file, first_offset, end_offset FROM segments WHERE {_OF_REPLICA}",  # noqa: S608
            (*place, store),
        )
        return {file: (first, end) for file, first, end in rows}

    def _replace(self, place: PlaceOf, change: SegmentsPublished) -> None:
        self._writer.executemany(
            f"DELETE FROM segments WHERE {_OF_REPLICA} AND file = ?",  # noqa: S608 (a constant)
            ((*place, change.store, file) for file in change.removed),
        )
        self._writer.executemany(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    *place,
                    change.store,
                    segment.end,
                    segment.first,
                    segment.file,
                    segment.length_bytes,
                    segment.max_timestamp,
                    segment.records,
                    segment.first_tombstone,
                    segment.crc,
                    change.lineage,
                    *change.grant,
                    segment.first_timestamp,
                )
                for segment in change.added
            ),
        )


def lies_on(places: bytes, store: int) -> bool:
    """Whether the column `places` names a store."""
    return any(each == store for each, _, _ in PLACE.iter_unpack(places))


def is_carried(places: bytes) -> bool:
    """Whether the column `places` names a carried file."""
    return any(number >= CARRIED for _, number, _ in PLACE.iter_unpack(places))


def without_place(places: bytes, store: int) -> bytes:
    """The column `places` without a store."""
    return b"".join(PLACE.pack(*place) for place in PLACE.iter_unpack(places) if place[0] != store)
