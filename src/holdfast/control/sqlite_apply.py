"""The writing half of the SQLite control plane: one frame's footer becomes one SQL transaction."""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.sqlite_groups import GroupTable
from holdfast.control.sqlite_log import PLACE
from holdfast.control.sqlite_replicas import PlaceOf, ReplicaRows
from holdfast.control.sqlite_segments import SegmentTable
from holdfast.control.sqlite_spans import close_spans
from holdfast.control.sqlite_stores import StoreTable
from holdfast.control.sqlite_topics import TopicTable
from holdfast.control.sqlite_transactions import TransactionTable
from holdfast.control.sqlite_trim import trim
from holdfast.errors import CommitRefused, KafkaRefusal, StoreFailed
from holdfast.rules.producer import ProducerState, WrittenBatch, append_batch, check_batch
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupOffsetStaged,
    GroupSaved,
    LeaderMoved,
    LogStartMoved,
    PartitionsAdded,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
    extents_on,
)
from holdfast.store.replica_changes import (
    ExtentsCarried,
    KeeperLeased,
    ReplicasAssigned,
    SegmentsPublished,
    StoreAdded,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from holdfast.store.store import StoredFrame

Places = dict[int, bytes]
"""What the column `places` says, by the identity of the extent's change."""


class FrameApplier:
    """Applies footers, each change checked again against what is true now.

    `topic_rows` (topic id → number) is shared with the reading half.
    """

    def __init__(
        self,
        writer: sqlite3.Connection,
        topic_rows: dict[UUID, int],
        coordination: Coordination = COORDINATED,
    ) -> None:
        self._writer = writer
        self._coordination = coordination
        self._replicas = ReplicaRows(writer, coordination)
        self._topics = TopicTable(writer, topic_rows, self._replicas)
        self._transactions = TransactionTable(writer, self._topics)
        self._groups = GroupTable(writer, self._topics, self._transactions)
        self._segments = SegmentTable(writer, self._topics, self._replicas)
        self._stores = StoreTable(writer, self._topics, self._replicas, self._segments)
        # Frames are applied by one thread, trimming may be another's work.
        self._writing = threading.RLock()
        self._appliers: dict[type[Change], Callable[[Any, Places], None]] = {
            TopicCreated: lambda change, _: self._topics.create(change),
            TopicDeleted: lambda change, _: self._topics.delete(change),
            PartitionsAdded: lambda change, _: self._topics.add_partitions(change),
            TopicConfigured: lambda change, _: self._topics.configure(change),
            LogStartMoved: lambda change, _: self._topics.move_log_start(change),
            ExtentAppended: self._append_extent,
            ProducerAdvanced: self._advance_producer,
            ProducerIdsAllotted: self._allot_producer_ids,
            GroupOffsetCommitted: lambda change, _: self._groups.commit_offset(change),
            GroupOffsetDeleted: lambda change, _: self._groups.delete_offset(change),
            GroupSaved: lambda change, _: self._groups.save(change),
            GroupDeleted: lambda change, _: self._groups.delete(change),
            TransactionalIdSet: lambda change, _: self._transactions.set(change),
            TransactionBegun: lambda change, _: self._transactions.begin(change),
            TransactionEnded: lambda change, _: self._transactions.end(change),
            GroupOffsetStaged: lambda change, _: self._transactions.stage(change),
            LeaderMoved: self._move_leader,
            KeeperLeased: lambda change, _: self._stores.lease(change),
            SegmentsPublished: lambda change, _: self._segments.publish(change),
            ExtentsCarried: lambda change, _: self._segments.carry(change),
            StoreAdded: lambda change, _: self._stores.add(change),
            StoreLeft: lambda change, _: self._stores.leave(change),
            StoreJoining: lambda change, _: self._stores.come(change),
            StoreJoined: lambda change, _: self._stores.join(change),
            StoreFenced: lambda change, _: self._stores.fence(change),
            StoreRebuilt: lambda change, _: self._stores.rebuild(change),
            ReplicasAssigned: lambda change, _: self._stores.assign(change),
        }

    def find_applied(self) -> int:
        """The number of the last frame applied."""
        row = self._writer.execute("SELECT frame FROM applied").fetchone()
        return row[0] if row else 0

    def apply(self, frames: Sequence[StoredFrame], changes: Sequence[Change], lost: Sequence[int]) -> None:
        """Record one durable frame: see `ControlPlane.apply`."""
        with self._writing:
            if frames[0].number > self.find_applied():
                self._record(frames, changes, lost)

    def rehearse(self, changes: Sequence[Change]) -> None:
        """Apply the changes and take them back: see `ControlPlane.rehearse`."""
        with self._writing:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    refusal = self._apply_all([], changes)
                finally:
                    self._writer.execute("ROLLBACK")
                    self._topics.forget()
            except sqlite3.Error as failure:
                raise StoreFailed(f"the control plane cannot rehearse a frame: {failure}") from failure
        if refusal is not None:
            raise refusal

    def trim(self, rows_max: int) -> int:
        """Delete rows that nobody sees any more: see `ControlPlane.trim`."""
        with self._writing:
            try:
                return trim(self._writer, rows_max, self._coordination)
            except sqlite3.Error as failure:
                raise StoreFailed(f"the control plane cannot be trimmed: {failure}") from failure

    def _record(self, frames: Sequence[StoredFrame], changes: Sequence[Change], lost: Sequence[int]) -> None:
        number = frames[0].number
        with self._synced(bool(lost)):
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                refusal = self._apply_all(frames, changes)
                # After the changes, which must find the store as a replay will: that knows of no loss.
                self._stores.lose(lost, {} if refusal else self._find_begun(changes))
                self._writer.executemany(
                    "UPDATE stores SET frame = ?, journal = ?, position = ? WHERE store = ?",
                    ((number, frame.end.journal, frame.end.position, frame.store) for frame in frames),
                )
                self._writer.execute("INSERT OR REPLACE INTO applied VALUES (1, ?)", (number,))
                self._writer.execute("COMMIT")
            except sqlite3.Error as failure:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                self._topics.forget()
                raise StoreFailed(f"the control plane cannot record frame {number}: {failure}") from failure
        if refusal is not None:
            self._topics.forget()
            raise refusal
        self._topics.publish()

    def add_store(self, store: int) -> None:
        """Make a store known."""
        with self._writing:
            self._stores.add(StoreAdded(store))

    def drop_stores(self, stores: Sequence[int]) -> None:
        """Out of sync, as far as their places reach."""
        with self._writing, self._synced(True):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                self._stores.lose(stores, None)
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    def save_elapsed(self, elapsed_ms: int) -> None:
        """Keep what the grace clock has counted."""
        with self._writing:
            self._writer.execute("UPDATE grace SET elapsed_ms = max(elapsed_ms, ?)", (elapsed_ms,))

    @contextmanager
    def _synced(self, is_needed: bool) -> Iterator[None]:
        """What is committed inside is not forgotten by a power cut: a lost store would serve its gap."""
        if is_needed:
            self._writer.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            if is_needed:
                self._writer.execute("PRAGMA synchronous = NORMAL")

    def _find_begun(self, changes: Sequence[Change]) -> dict[PlaceOf, int]:
        """Where the partitions begin of which the frame holds something."""
        begun: dict[PlaceOf, int] = {}
        for change in changes:
            if isinstance(change, ExtentAppended) and (topic := self._topics.find(change.topic_id)):
                begun.setdefault((topic, change.partition), change.first)
        return begun

    def _apply_all(self, frames: Sequence[StoredFrame], changes: Sequence[Change]) -> CommitRefused | None:
        """All changes, or none of them and the reason."""
        places = _places(frames, changes)
        self._writer.execute("SAVEPOINT changes")
        try:
            for change in changes:
                self._appliers[type(change)](change, places)
        except CommitRefused as refusal:
            self._writer.execute("ROLLBACK TO changes")
            return refusal
        except sqlite3.IntegrityError as violation:
            # No retry would ever succeed: to try again for ever would close the log to everybody.
            self._writer.execute("ROLLBACK TO changes")
            return CommitRefused(f"the changes break a rule of the schema: {violation}")
        return None

    def _append_extent(self, change: ExtentAppended, places: Places) -> None:
        topic = self._topics.get(change.topic_id)
        moved = self._writer.execute(
            "UPDATE partitions SET log_end = ?"
            " WHERE topic = ? AND partition = ? AND log_end = ? AND leader_epoch = ?",
            (change.last + 1, topic, change.partition, change.first, change.leader_epoch),
        ).rowcount
        if moved != 1:
            raise CommitRefused(f"{change.topic_id}/{change.partition} does not end at {change.first}")
        is_transactional = change.instance != NO_INSTANCE
        if is_transactional:
            self._transactions.join(topic, change.partition, change.first, change.instance)
        self._writer.execute(
            "INSERT INTO extents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                topic,
                change.partition,
                change.last,
                change.first,
                places[id(change)],
                change.length_bytes,
                change.max_timestamp,
                change.leader_epoch,
                change.instance if is_transactional else None,
                change.first_timestamp,
            ),
        )
        close_spans(self._writer, topic, change.partition, change.first, change.last)

    def _advance_producer(self, change: ProducerAdvanced, places: Places) -> None:
        key = (self._topics.get(change.topic_id), change.partition, change.producer_id)
        row = self._writer.execute(
            "SELECT producer_epoch, batches FROM producers"
            " WHERE topic = ? AND partition = ? AND producer_id = ?",
            key,
        ).fetchone()
        state = row and decode_producer(*row)
        try:
            repeated = check_batch(
                state,
                epoch=change.producer_epoch,
                first_sequence=change.first_sequence,
                last_sequence=change.last_sequence,
            )
        except KafkaRefusal as refusal:
            raise CommitRefused(f"producer {change.producer_id}: {refusal}") from refusal
        if repeated is not None:
            raise CommitRefused(f"producer {change.producer_id} repeats sequence {change.first_sequence}")
        batch = WrittenBatch(
            first_sequence=change.first_sequence,
            last_sequence=change.last_sequence,
            first_offset=change.first_offset,
            last_offset=change.last_offset,
            timestamp_ms=change.timestamp_ms,
        )
        state = append_batch(state, epoch=change.producer_epoch, batch=batch)
        self._writer.execute(
            "INSERT OR REPLACE INTO producers VALUES (?, ?, ?, ?, ?)",
            # The text of lists of integers is JSON, at a fraction of the price of an encoder.
            (*key, state.epoch, str(list(map(list, state.window)))),
        )

    def _allot_producer_ids(self, change: ProducerIdsAllotted, places: Places) -> None:
        self._writer.execute("UPDATE producer_ids SET next_id = max(next_id, ?)", (change.next_id,))

    def _move_leader(self, change: LeaderMoved, places: Places) -> None:
        key = (self._topics.get(change.topic_id), change.partition)
        moved = self._writer.execute(
            "UPDATE partitions SET leader = ?, leader_epoch = ?"
            " WHERE topic = ? AND partition = ? AND leader_epoch = ?",
            (change.leader, change.leader_epoch, *key, change.leader_epoch - 1),
        ).rowcount
        if moved != 1:
            raise CommitRefused(
                f"{change.topic_id}/{change.partition} is past epoch {change.leader_epoch - 1}"
            )
        self._writer.execute(
            "INSERT INTO leader_epochs SELECT topic, partition, leader_epoch, log_end"
            " FROM partitions WHERE topic = ? AND partition = ?",
            key,
        )


def _places(frames: Sequence[StoredFrame], changes: Sequence[Change]) -> Places:
    """Where each extent lies on the stores that have the frame."""
    places: dict[int, bytes] = {id(change): b"" for change in changes if isinstance(change, ExtentAppended)}
    for frame in frames:
        for position, extent in extents_on(changes, frame.store):
            places[id(extent)] += PLACE.pack(frame.store, frame.body.journal, frame.body.position + position)
    return places


def decode_producer(epoch: int, batches: str) -> ProducerState:
    """A row of `producers` as the rules see it."""
    window = tuple(map(WrittenBatch._make, json.loads(batches)))
    return ProducerState(epoch=epoch, window=window)
