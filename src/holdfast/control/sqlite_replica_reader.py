"""Reading stores and replicas in the SQLite control plane: who holds what, how far it is clean, which files count."""

import sqlite3
from collections.abc import Callable, Iterator
from uuid import UUID

from holdfast.control.replicas import PartitionRemoval, ReplicaManifest, StoreState
from holdfast.control.sqlite_log import PLACE, read_bounds
from holdfast.control.sqlite_replicas import (
    GROUP_COLUMNS,
    IS_MEMBER,
    PHASES,
    REPLICA_COLUMNS,
    read_group,
    read_replica,
)
from holdfast.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from holdfast.store.replica_changes import HeldTo
from holdfast.store.store import CARRIED, Checkpoint, Place

# As `KeptReplica.has` says; nothing of a fenced store is in use.
_IN_USE = (
    "SELECT places FROM replicas CROSS JOIN partitions USING (topic, partition) LEFT JOIN stores USING (store)"  # noqa: S608
    " CROSS JOIN {extents} USING (topic, partition)"
    f" WHERE store = ? AND {IS_MEMBER} AND last_offset >= max(settled_to, log_start)"
    " AND (held_to IS NULL OR last_offset < held_to OR first_offset >= joined_from)"
)
_EXTENTS = "extents"
_CARRIED_EXTENTS = "extents INDEXED BY extents_carried"
"""Most extents lie in journals: this index has the others, and none of those."""


class ReplicaReader:
    """The verbs that read stores and replicas; `connect` gives the calling thread's own connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], topic_rows: dict[UUID, int]) -> None:
        self._connect = connect
        self._topic_rows = topic_rows

    def list_stores(self) -> list[StoreState]:
        """All of them by number."""
        rows = self._connect().execute(
            "SELECT store, incarnation, lease, phase, frame, journal, position FROM stores ORDER BY store"
        )
        return [
            StoreState(
                store=store,
                incarnation=incarnation,
                lease=lease,
                phase=PHASES[phase],
                checkpoint=None
                if journal is None
                else Checkpoint(frame=frame, end=Place(journal=journal, position=position)),
            )
            for store, incarnation, lease, phase, frame, journal, position in rows
        ]

    def find_removal(self, topic_id: UUID, partition: int) -> PartitionRemoval:
        """All that coordination knows of a partition, in one snapshot: the join is one statement."""
        place = (self._topic_rows.get(topic_id), partition)
        rows = (
            self._connect()
            .execute(
                f"SELECT {GROUP_COLUMNS}, log_start, log_end,"  # noqa: S608 (constants)
                f" store, coalesce(incarnation, 1), {IS_MEMBER}, {REPLICA_COLUMNS}"
                " FROM removals JOIN partitions USING (topic, partition) JOIN replicas USING (topic, partition)"
                " LEFT JOIN stores USING (store) WHERE topic = ? AND partition = ? ORDER BY store",
                place,
            )
            .fetchall()
        )
        if not rows:
            raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
        group = read_group(rows[0][:7])
        return PartitionRemoval(
            lineage=group.lineage,
            membership=group.membership,
            removable=group.removable,
            coverage=group.coverage,
            trimmed_to=group.trimmed_to,
            replicas=tuple(_manifest(row[7:]) for row in rows if row[11]),
        )

    def find_held(self, topic_id: UUID, partition: int, store: int) -> int:
        """What a store holds of a partition."""
        place = (self._topic_rows.get(topic_id), partition)
        reader = self._connect()
        reader.execute("BEGIN")
        try:
            bounds = read_bounds(reader, *place)
            row = reader.execute(
                f"SELECT {REPLICA_COLUMNS} FROM replicas WHERE topic = ? AND partition = ? AND store = ?",  # noqa: S608
                (*place, store),
            ).fetchone()
        finally:
            reader.execute("COMMIT")
        if bounds is None:
            raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
        if row is None:
            raise NotLeaderOrFollower(f"store {store} does not hold partition {partition} of {topic_id}")
        return read_replica(row).held(bounds.start, bounds.end)

    def list_behind(self, store: int) -> list[HeldTo]:
        """The partitions of which a store lacks something."""
        rows = self._connect().execute(
            f"SELECT topic_id, partition, log_start, log_end, {REPLICA_COLUMNS} FROM replicas"  # noqa: S608
            " CROSS JOIN topics USING (topic) CROSS JOIN partitions USING (topic, partition)"
            " WHERE store = ? AND held_to IS NOT NULL ORDER BY topic_id, partition",
            (store,),
        )
        held = [
            (HeldTo(UUID(bytes=row[0]), row[1], read_replica(row[4:]).held(row[2], row[3])), row[3])
            for row in rows
        ]
        return [each for each, end in held if each.held_to < end]

    def list_files(self, store: int) -> set[str]:
        """Every segment file in use."""
        rows = self._connect().execute(
            "SELECT file FROM replicas CROSS JOIN segments USING (topic, partition, store) WHERE store = ?",
            (store,),
        )
        return {file for (file,) in rows}

    def find_oldest_journal(self, store: int) -> int | None:
        """The lowest number of a journal in use, else of a carried file."""
        lowest: int | None = None
        for key in (
            self._connect()
            .execute("SELECT topic, partition FROM replicas WHERE store = ?", (store,))
            .fetchall()
        ):
            # Journals follow each other as offsets do; what is carried may lie before them.
            for number in self._list_files_in_use(
                store, _EXTENTS, "AND topic = ? AND partition = ? ORDER BY last_offset", *key
            ):
                lowest = number if lowest is None else min(lowest, number)
                if number < CARRIED:
                    break
        return lowest

    def find_carried(self, store: int) -> set[int]:
        """The carried files in use."""
        files = self._list_files_in_use(store, _CARRIED_EXTENTS, "AND is_carried")
        return {number for number in files if number >= CARRIED}

    def _list_files_in_use(
        self, store: int, extents: str, condition: str, *arguments: object
    ) -> Iterator[int]:
        """In which file each extent lies whose place on the store counts."""
        rows = self._connect().execute(f"{_IN_USE.format(extents=extents)} {condition}", (store, *arguments))
        for (places,) in rows:
            for number, journal, _ in PLACE.iter_unpack(places):
                if number == store:
                    yield journal


def _manifest(
    row: tuple[int, int, int, int, bool, int, int, int | None, int | None, int, int, str],
) -> ReplicaManifest:
    start, end, store, incarnation, _, *columns = row
    replica = read_replica(tuple(columns))  # type: ignore[arg-type]  # the columns that it names
    return ReplicaManifest(
        store=store,
        incarnation=incarnation,
        generation=replica.generation,
        settled_to=replica.settled_to,
        held_to=replica.held(start, end),
        joined_from=replica.joined_from,
        cleaned=replica.cleaned,
        clean_coverage=replica.clean_coverage,
    )
