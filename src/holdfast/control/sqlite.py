"""The embedded control plane: one SQLite file, owned by one process.

WAL with synchronous=NORMAL: a commit here costs no sync of its own. After a power cut the file may lack
its last commits; the footers of the frames after `checkpoint` bring them back (docs/decisions/0002).
"""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from itertools import groupby
from pathlib import Path
from uuid import UUID

from holdfast.control.plane import (
    EXTENTS_PER_PLAN_MAX,
    Extent,
    GroupOffset,
    ListedGroup,
    LogBounds,
    OpenInstance,
    Partition,
    Topic,
)
from holdfast.control.sqlite_apply import FrameApplier, decode_places, decode_producer
from holdfast.control.sqlite_spans import SpanReader
from holdfast.control.sqlite_transactions import FIRST_OPEN, OUTCOMES, TransactionReader
from holdfast.errors import DataDirectoryRefused, UnknownTopicOrPartition
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.producer import ProducerState
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.rules.transactional_id import TransactionalId
from holdfast.store import footer
from holdfast.store.footer import Change, GroupSaved
from holdfast.store.store import Checkpoint, Place, StoredFrame

_EXTENT_COLUMNS = "first_offset, last_offset, places, length_bytes, max_timestamp, instance, outcome"
_EXTENTS = "extents LEFT JOIN instances USING (instance)"


class SqliteControlPlane:
    """Implements `ControlPlane`; see the contract there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._writer = _connect(path)
            _migrate(self._writer, path)
        except sqlite3.Error as failure:
            raise DataDirectoryRefused(
                f"cannot use {path}: {failure}; if it is damaged, remove it: the journals hold all of it"
            ) from failure
        self._readers: list[sqlite3.Connection] = []
        self._of_thread = threading.local()
        rows = self._reader.execute("SELECT topic_id, topic FROM topics")
        self._topic_rows = {UUID(bytes=topic_id): row for topic_id, row in rows}
        self._applier = FrameApplier(self._writer, self._topic_rows)
        self._transactions = TransactionReader(lambda: self._reader, self._topic_rows)

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

    def trim(self, rows_max: int) -> int:
        """Delete rows that nobody sees any more."""
        return self._applier.trim(rows_max)

    def find_in_sync(self) -> frozenset[int]:
        """The stores that have every frame."""
        return frozenset(row[0] for row in self._reader.execute("SELECT store FROM stores WHERE in_sync"))

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
            "SELECT topic_id, name, configs, replicas, leader, leader_epoch"
            " FROM topics JOIN partitions USING (topic) ORDER BY name, partition"
        )
        return [
            Topic(
                topic_id=UUID(bytes=topic_id),
                name=name,
                partitions=tuple(
                    Partition(replicas=tuple(json.loads(replicas)), leader=leader, leader_epoch=epoch)
                    for _, _, _, replicas, leader, epoch in group
                ),
                configs=json.loads(configs),
            )
            for (topic_id, name, configs), group in groupby(rows, key=lambda row: row[:3])
        ]

    def find_partition(self, topic_id: UUID, partition: int) -> Partition:
        """Who holds and who leads it."""
        row = self._reader.execute(
            "SELECT replicas, leader, leader_epoch FROM partitions WHERE topic = ? AND partition = ?",
            (self._topic_rows.get(topic_id), partition),
        ).fetchone()
        if row is None:
            raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
        return Partition(replicas=tuple(json.loads(row[0])), leader=row[1], leader_epoch=row[2])

    def find_bounds(self, topic_id: UUID, partition: int) -> LogBounds:
        """Where the partition's log begins and ends."""
        row = self._reader.execute(
            f"SELECT log_start, log_end, leader_epoch, ({FIRST_OPEN})"  # noqa: S608 (a constant)
            " FROM partitions WHERE topic = :topic AND partition = :partition",
            {"topic": self._topic_rows.get(topic_id), "partition": partition},
        ).fetchone()
        if row is None:
            raise UnknownTopicOrPartition(f"no partition {partition} of topic {topic_id}")
        start, end, leader_epoch, first_open = row
        # DeleteRecords may pass the beginning of an open transaction; nothing below the log start is waited for.
        last_stable = max(last_stable_offset(end, first_open), start)
        return LogBounds(start=start, end=end, last_stable=last_stable, leader_epoch=leader_epoch)

    def find_size(self, topic_id: UUID, partition: int) -> int:
        """Bytes of the partition's batches."""
        with self._snapshot() as reader:
            try:
                bounds = self.find_bounds(topic_id, partition)
            except UnknownTopicOrPartition:
                return 0
            return self._spans(reader, topic_id, partition, bounds, 0).sum_bytes()

    def find_extents(
        self, topic_id: UUID, partition: int, offset: int, bytes_max: int
    ) -> tuple[LogBounds, list[Extent]]:
        """Bounds and extents from `offset` on, in one snapshot."""
        self._reader.execute("BEGIN")
        try:
            bounds = self.find_bounds(topic_id, partition)
            if not bounds.start <= offset < bounds.end:
                return bounds, []
            rows = self._reader.execute(
                f"SELECT {_EXTENT_COLUMNS} FROM {_EXTENTS}"  # noqa: S608 (a constant)
                " WHERE topic = ? AND partition = ? AND last_offset >= ? ORDER BY last_offset LIMIT ?",
                (self._topic_rows.get(topic_id), partition, offset, EXTENTS_PER_PLAN_MAX),
            )
            extents: list[Extent] = []
            bytes_left = bytes_max
            for row in rows:
                extents.append(_extent(row))
                bytes_left -= extents[-1].length_bytes
                if bytes_left <= 0:
                    break
            return bounds, extents
        finally:
            self._reader.execute("COMMIT")

    def find_extent_by_time(
        self, topic_id: UUID, partition: int, offset: int, timestamp_ms: int
    ) -> Extent | None:
        """The first extent that holds a record at or after the time."""
        with self._snapshot() as reader:
            bounds = self.find_bounds(topic_id, partition)
            last = self._spans(reader, topic_id, partition, bounds, offset).find_first(timestamp_ms)
            return None if last is None else self._get_extent(topic_id, partition, last)

    def find_extent_of_max_time(self, topic_id: UUID, partition: int, offset: int) -> Extent | None:
        """The first extent that holds the greatest timestamp."""
        with self._snapshot() as reader:
            bounds = self.find_bounds(topic_id, partition)
            spans = self._spans(reader, topic_id, partition, bounds, offset)
            timestamp_ms = spans.find_max_timestamp()
            last = None if timestamp_ms is None else spans.find_first(timestamp_ms)
            return None if last is None else self._get_extent(topic_id, partition, last)

    def _spans(
        self, reader: sqlite3.Connection, topic_id: UUID, partition: int, bounds: LogBounds, offset: int
    ) -> SpanReader:
        topic = self._topic_rows.get(topic_id)
        return SpanReader(reader, topic, partition, start=max(offset, bounds.start), end=bounds.end)

    def _get_extent(self, topic_id: UUID, partition: int, last: int) -> Extent:
        row = self._reader.execute(
            f"SELECT {_EXTENT_COLUMNS} FROM {_EXTENTS}"  # noqa: S608 (constants)
            " WHERE topic = ? AND partition = ? AND last_offset = ?",
            (self._topic_rows.get(topic_id), partition, last),
        ).fetchone()
        return _extent(row)

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

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection, with one state of things until the end."""
        self._reader.execute("BEGIN")
        try:
            yield self._reader
        finally:
            self._reader.execute("COMMIT")

    @property
    def _reader(self) -> sqlite3.Connection:
        """This thread's own connection: a snapshot must not be shared."""
        reader: sqlite3.Connection | None = getattr(self._of_thread, "reader", None)
        if reader is None:
            reader = self._of_thread.reader = _connect(self._path)
            self._readers.append(reader)
        return reader


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema to the newest version, one numbered file at a time."""
    folder = resources.files("holdfast.control") / "migrations"
    scripts = sorted((file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql"))
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(scripts):
        raise DataDirectoryRefused(
            f"{path} has schema {version}, newer than {len(scripts)}: use a newer Holdfast"
        )
    for number, (_, script) in enumerate(scripts[version:], start=version + 1):
        connection.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")


def _extent(row: tuple[int, int, bytes, int, int, int | None, int | None]) -> Extent:
    first, last, places, length_bytes, max_timestamp, instance, outcome = row
    return Extent(
        first=first,
        last=last,
        places=decode_places(places),
        length_bytes=length_bytes,
        max_timestamp=max_timestamp,
        instance=NO_INSTANCE if instance is None else instance,
        outcome=None if outcome is None else OUTCOMES[outcome],
    )
