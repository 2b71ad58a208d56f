"""The embedded control plane: one SQLite file, owned by one process.

WAL with synchronous=NORMAL: a commit here costs no sync of its own. After a power cut the file may lack
its last commits; the footers of the frames after `checkpoint` bring them back (docs/decisions/0002).
"""

import json
import sqlite3
import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from uuid import UUID

from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.plane import (
    Extent,
    GroupOffset,
    ListedGroup,
    LogBounds,
    OpenInstance,
    Partition,
    Topic,
)
from holdfast.control.replicas import PartitionRemoval, Segment, StoreState
from holdfast.control.sqlite_apply import FrameApplier
from holdfast.control.sqlite_log import LogReader
from holdfast.control.sqlite_producers import decode_producer
from holdfast.control.sqlite_replica_reader import ReplicaReader
from holdfast.control.sqlite_schema import connect, migrate, write_snapshot
from holdfast.control.sqlite_transactions import TransactionReader
from holdfast.errors import DataDirectoryRefused, UnknownTopicOrPartition
from holdfast.rules.producer import ProducerState
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store import footer
from holdfast.store.footer import Change, GroupSaved
from holdfast.store.replica_changes import HeldTo
from holdfast.store.store import Checkpoint, Place, StoredFrame

_JOINING = (
    "SELECT json_group_array(store) FROM replicas WHERE replicas.topic = partitions.topic"
    " AND replicas.partition = partitions.partition AND joined_from IS NOT NULL"
)


class SqliteControlPlane:
    """Implements `ControlPlane`; see the contract there."""

    def __init__(self, path: Path, coordination: Coordination = COORDINATED) -> None:
        self._path = path
        try:
            self._writer = connect(path)
            migrate(self._writer, path)
        except sqlite3.Error as failure:
            raise DataDirectoryRefused(
                f"cannot use {path}: {failure}; if it is damaged, remove it: the journals hold all of it"
            ) from failure
        self._readers: list[sqlite3.Connection] = []
        self._of_thread = threading.local()
        rows = self._reader.execute("SELECT topic_id, topic FROM topics")
        self._topic_rows = {UUID(bytes=topic_id): row for topic_id, row in rows}
        self._applier = FrameApplier(self._writer, self._topic_rows, coordination)
        self._transactions = TransactionReader(lambda: self._reader, self._topic_rows)
        self._log = LogReader(lambda: self._reader, self._topic_rows)
        self._replicas = ReplicaReader(lambda: self._reader, self._topic_rows)

    def apply(
        self, frames: Sequence[StoredFrame], changes: Sequence[Change], *, lost: Sequence[int] = ()
    ) -> None:
        """Record one durable frame in one transaction."""
        self._applier.apply(frames, changes, lost)

    def add_store(self, store: int) -> None:
        """Make a store known."""
        self._applier.add_store(store)

    def drop_stores(self, stores: Sequence[int]) -> None:
        """The stores are in sync no longer."""
        self._applier.drop_stores(stores)

    def rehearse(self, changes: Sequence[Change]) -> None:
        """Whether the changes would be taken."""
        self._applier.rehearse(changes)

    def trim(self, rows_max: int) -> int:
        """Delete rows that nobody sees any more."""
        return self._applier.trim(rows_max)

    def list_stores(self) -> list[StoreState]:
        """All stores by number."""
        return self._replicas.list_stores()

    def find_in_sync(self) -> frozenset[int]:
        """The stores that have every frame."""
        return frozenset(row[0] for row in self._reader.execute("SELECT store FROM stores WHERE phase = 0"))

    def find_applied(self) -> int:
        """The number of the last frame applied."""
        return self._applier.find_applied()

    def find_checkpoint(self, store: int) -> Checkpoint | None:
        """The last frame applied that lies on the store."""
        row = self._reader.execute(
            "SELECT frame, journal, position FROM stores WHERE store = ? AND journal IS NOT NULL", (store,)
        ).fetchone()
        return row and Checkpoint(frame=row[0], end=Place(journal=row[1], position=row[2]))

    def list_topics(self) -> list[Topic]:
        """All topics by name."""
        rows = self._reader.execute(
            f"SELECT topic_id, name, configs, replicas, leader, leader_epoch, ({_JOINING}), adding, removing"  # noqa: S608
            " FROM topics JOIN partitions USING (topic) ORDER BY name, partition"
        )
        return [
            Topic(
                topic_id=UUID(bytes=topic_id),
                name=name,
                partitions=tuple(_partition(*row[3:]) for row in group),
                configs=json.loads(configs),
            )
            for (topic_id, name, configs), group in groupby(rows, key=lambda row: row[:3])
        ]

    def find_partition(self, topic_id: UUID, partition: int) -> Partition:
        """Who holds and who leads it."""
        row = self._reader.execute(
            f"SELECT replicas, leader, leader_epoch, ({_JOINING}), adding, removing"  # noqa: S608 (a constant)
            " FROM partitions WHERE topic = ? AND partition = ?",
            (self._topic_rows.get(topic_id), partition),
        ).fetchone()
        if row is None:
            raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
        return _partition(*row)

    def find_bounds(self, topic_id: UUID, partition: int) -> LogBounds:
        """Where the partition's log begins and ends."""
        return self._log.find_bounds(topic_id, partition)

    def find_size(self, topic_id: UUID, partition: int, store: int) -> int:
        """Bytes of the partition on the store."""
        return self._log.find_size(topic_id, partition, store)

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds and extents from `offset` on."""
        return self._log.find_extents(topic_id, partition, offset, bytes_max)

    def find_pieces(
        self, topic_id: UUID, partition: int, store: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Segment | Extent]]:
        """Bounds, and what a reader of one store reads."""
        return self._log.find_pieces(topic_id, partition, store, offset, bytes_max)

    def find_logs(
        self, wanted: Sequence[tuple[UUID, int, int]], extents_max: int
    ) -> list[tuple[LogBounds, list[Segment | Extent]]]:
        """All of several replicas at one moment."""
        return self._log.find_logs(wanted, extents_max)

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, store: int, offset: int, timestamp_ms: int
    ) -> Segment | Extent | None:
        """The first piece that holds a record at or after the time."""
        return self._log.find_extent_by_time(topic_id, partition, store, offset, timestamp_ms)

    def find_extent_of_max_time(
        self, topic_id: UUID, partition: int, store: int, offset: int
    ) -> Segment | Extent | None:
        """The first piece that holds the greatest timestamp."""
        return self._log.find_extent_of_max_time(topic_id, partition, store, offset)

    def find_segments(self, topic_id: UUID, partition: int, store: int, offset: int = 0) -> list[Segment]:
        """The segments of a partition on a store."""
        return self._log.find_segments(topic_id, partition, store, offset)

    def find_removal(self, topic_id: UUID, partition: int) -> PartitionRemoval:
        """How far each member is clean and how far the group may forget."""
        return self._replicas.find_removal(topic_id, partition)

    def find_held(self, topic_id: UUID, partition: int, store: int) -> int:
        """What the store holds of the partition."""
        return self._replicas.find_held(topic_id, partition, store)

    def list_behind(self, store: int) -> list[HeldTo]:
        """The partitions of which a store lacks something."""
        return self._replicas.list_behind(store)

    def list_files(self, store: int) -> set[str]:
        """Every segment file on the store that is in use."""
        return self._replicas.list_files(store)

    def find_oldest_journal(self, store: int) -> int | None:
        """The lowest number of a file of extents that is in use on the store."""
        return self._replicas.find_oldest_journal(store)

    def find_carried(self, store: int) -> set[int]:
        """The carried files on the store that are in use."""
        return self._replicas.find_carried(store)

    def snapshot(self, path: Path) -> int:
        """Write all of it to a file."""
        return write_snapshot(self._path, path)

    def find_elapsed(self) -> int:
        """What the grace clock had counted."""
        elapsed_ms: int = self._reader.execute("SELECT elapsed_ms FROM grace").fetchone()[0]
        return elapsed_ms

    def save_elapsed(self, elapsed_ms: int) -> None:
        """Keep what the grace clock has counted."""
        self._applier.save_elapsed(elapsed_ms)

    def find_epoch_end(self, topic_id: UUID, partition: int, leader_epoch: int) -> tuple[int, int]:
        """The greatest epoch up to the one asked for, and where it ended."""
        self._reader.execute("BEGIN")
        try:
            end = self.find_bounds(topic_id, partition).end
            rows = self._reader.execute(
                "SELECT leader_epoch, start_offset FROM leader_epochs WHERE topic = ? AND partition = ?"
                " ORDER BY leader_epoch DESC",
                (self._topic_rows.get(topic_id), partition),
            )
            for epoch, start in rows:
                if epoch <= leader_epoch:
                    return epoch, end
                end = start
            return -1, -1
        finally:
            self._reader.execute("COMMIT")

    def find_producers(self, topic_id: UUID, partition: int) -> dict[int, ProducerState]:
        """Idempotent producers of the partition by producer id."""
        rows = self._reader.execute(
            "SELECT producer_id, producer_epoch, batches FROM producers WHERE topic = ? AND partition = ?",
            (self._topic_rows.get(topic_id), partition),
        )
        return {producer_id: decode_producer(epoch, batches) for producer_id, epoch, batches in rows}

    def find_open_instances(self, topic_id: UUID, partition: int) -> dict[int, OpenInstance]:
        """The transaction instances that are open in the partition."""
        return self._transactions.find_open(topic_id, partition)

    def find_transactional_id(self, transactional_id: str) -> TransactionalId | None:
        """A transactional id as it stands."""
        return self._transactions.find(transactional_id)

    def list_transactional_ids(self) -> dict[str, TransactionalId]:
        """All transactional ids by name."""
        return self._transactions.list_all()

    def find_next_instance(self) -> int:
        """The number that the next transaction instance gets."""
        return self._transactions.find_next_instance()

    def list_decided(self) -> set[int]:
        """The instances whose outcome is kept."""
        return self._transactions.list_decided()

    def find_instance_partitions(self, instance: int) -> list[tuple[UUID, int, int]]:
        """Where an open instance has data."""
        return self._transactions.find_partitions(instance)

    def find_staged(self, group: str) -> set[tuple[UUID, int]]:
        """Partitions for which open transactions have staged positions of a group."""
        return self._transactions.find_staged(group)

    def find_next_producer_id(self) -> int:
        """First producer id not yet allotted."""
        next_id: int = self._reader.execute("SELECT next_id FROM producer_ids").fetchone()[0]
        return next_id

    def find_group_offsets(self, group: str) -> list[GroupOffset]:
        """All positions that a group has committed."""
        rows = self._reader.execute(
            "SELECT topic_id, name, partition, offset, leader_epoch, metadata, committed_ms"
            " FROM group_offsets JOIN topics USING (topic) WHERE group_id = ? ORDER BY name, partition",
            (group,),
        )
        return [
            GroupOffset(
                topic_id=UUID(bytes=topic_id),
                topic=name,
                partition=partition,
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                committed_ms=committed_ms,
            )
            for topic_id, name, partition, offset, leader_epoch, metadata, committed_ms in rows
        ]

    def find_stale_groups(self, before_ms: int) -> list[str]:
        """Groups with an old position, and those with nothing at all."""
        rows = self._reader.execute(
            "SELECT group_id FROM group_offsets JOIN topics USING (topic) WHERE committed_ms <= ?"
            " UNION SELECT group_id FROM consumer_groups WHERE members = 0 AND NOT EXISTS"
            " (SELECT 1 FROM group_offsets JOIN topics USING (topic)"
            " WHERE group_offsets.group_id = consumer_groups.group_id) ORDER BY group_id",
            (before_ms,),
        )
        return [group for (group,) in rows]

    def find_group(self, group: str) -> GroupSaved | None:
        """A group as its last rebalance left it."""
        row = self._reader.execute(
            "SELECT saved FROM consumer_groups WHERE group_id = ?", (group,)
        ).fetchone()
        if row is None:
            return None
        (saved,) = footer.decode(row[0])
        assert isinstance(saved, GroupSaved)
        return saved

    def list_groups(self) -> list[ListedGroup]:
        """All groups by name, those included that only have positions."""
        rows = self._reader.execute(
            "SELECT group_id, protocol_type, members FROM consumer_groups"
            " UNION ALL SELECT DISTINCT group_id, '', 0 FROM group_offsets JOIN topics USING (topic)"
            " WHERE group_id NOT IN (SELECT group_id FROM consumer_groups) ORDER BY group_id"
        )
        return [ListedGroup(group=row[0], protocol_type=row[1], members=row[2]) for row in rows]

    def close(self) -> None:
        """Close all connections; the last one folds the WAL into the file."""
        for reader in self._readers:
            reader.close()
        self._writer.close()

    @property
    def _reader(self) -> sqlite3.Connection:
        """This thread's own connection: a snapshot must not be shared."""
        reader: sqlite3.Connection | None = getattr(self._of_thread, "reader", None)
        if reader is None:
            reader = self._of_thread.reader = connect(self._path)
            self._readers.append(reader)
        return reader


def _partition(
    replicas: str, leader: int, leader_epoch: int, joining: str, adding: str, removing: str
) -> Partition:
    return Partition(
        replicas=tuple(json.loads(replicas)),
        leader=leader,
        leader_epoch=leader_epoch,
        joining=tuple(sorted(json.loads(joining))),
        adding=tuple(json.loads(adding)),
        removing=tuple(json.loads(removing)),
    )
