"""The writing half of the SQLite control plane: one frame's footer becomes one SQL transaction."""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from uuid import UUID

from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.sqlite_extents import ExtentTable, Places, find_places
from holdfast.control.sqlite_groups import GroupTable
from holdfast.control.sqlite_producers import ProducerTable
from holdfast.control.sqlite_replicas import PlaceOf, ReplicaRows
from holdfast.control.sqlite_segments import SegmentTable
from holdfast.control.sqlite_stores import StoreTable
from holdfast.control.sqlite_topics import TopicTable
from holdfast.control.sqlite_transactions import TransactionTable
from holdfast.control.sqlite_trim import trim
from holdfast.errors import CommitRefused, StoreFailed
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

Applier = Callable[[Sequence[Any], Places], None]
"""Applies changes of one kind that follow each other in a footer."""


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
        self._extents = ExtentTable(writer, self._topics, self._transactions)
        self._producers = ProducerTable(writer, self._topics)
        self._groups = GroupTable(writer, self._topics, self._transactions)
        self._segments = SegmentTable(writer, self._topics, self._replicas)
        self._stores = StoreTable(writer, self._topics, self._replicas, self._segments)
        # None: it must be looked up.
        self._applied: int | None = None
        # Frames are applied by one thread, trimming may be another's work.
        self._writing = threading.RLock()
        one_by_one: dict[type[Change], Callable[[Any], None]] = {
            TopicCreated: self._topics.create,
            TopicDeleted: self._topics.delete,
            PartitionsAdded: self._topics.add_partitions,
            TopicConfigured: self._topics.configure,
            LogStartMoved: self._topics.move_log_start,
            ProducerIdsAllotted: self._allot_producer_ids,
            GroupOffsetCommitted: self._groups.commit_offset,
            GroupOffsetDeleted: self._groups.delete_offset,
            GroupSaved: self._groups.save,
            GroupDeleted: self._groups.delete,
            GroupOffsetStaged: self._transactions.stage,
            LeaderMoved: self._move_leader,
            KeeperLeased: self._stores.lease,
            SegmentsPublished: self._segments.publish,
            ExtentsCarried: self._segments.carry,
            StoreAdded: self._stores.add,
            StoreLeft: self._stores.leave,
            StoreJoining: self._stores.come,
            StoreJoined: self._stores.join,
            StoreFenced: self._stores.fence,
            StoreRebuilt: self._stores.rebuild,
            ReplicasAssigned: self._stores.assign,
        }
        self._appliers: dict[type[Change], Applier] = {
            **{kind: _each(apply) for kind, apply in one_by_one.items()},
            ExtentAppended: self._extents.append,
            ProducerAdvanced: lambda changes, _: self._producers.advance(changes),
            TransactionBegun: lambda changes, _: self._transactions.begin(changes),
            TransactionEnded: lambda changes, _: self._transactions.end(changes),
            TransactionalIdSet: lambda changes, _: self._transactions.set(changes),
        }

    def find_applied(self) -> int:
        """The number of the last frame applied."""
        if self._applied is None:
            row = self._writer.execute("SELECT frame FROM applied").fetchone()
            self._applied = row[0] if row else 0
        return self._applied

    def apply(self, frames: Sequence[StoredFrame], changes: Sequence[Change], lost: Sequence[int]) -> None:
        """Record one durable frame: see `ControlPlane.apply`."""
        with self._writing:
            if frames[0].number > self.find_applied():
                self._record(frames, changes, lost)

    def rehearse(self, changes: Sequence[Change]) -> None:
        """Apply the changes and take them back: see `ControlPlane.rehearse`."""
        with self._writing:
            try:
                try:
                    refusal = self._try_all([], changes)
                finally:
                    self._take_back()
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
        self._applied = None
        with self._synced(bool(lost)):
            try:
                refusal = self._try_all(frames, changes)
                # After the changes, which must find the store as a replay will: that knows of no loss.
                if lost:
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
                self._forget()
                raise StoreFailed(f"the control plane cannot record frame {number}: {failure}") from failure
        self._applied = number
        if refusal is not None:
            raise refusal
        self._topics.publish()
        self._producers.publish()
        self._transactions.forget()

    def _try_all(self, frames: Sequence[StoredFrame], changes: Sequence[Change]) -> CommitRefused | None:
        """Begin an SQL transaction with all changes, or with none of them; then the reason.

        What does not fit together is applied once more, one change after the other, so that the first that is
        refused says why. To begin anew costs those alone; a savepoint would copy every page that changes.
        """
        places = find_places(frames, changes)
        refusal = self._apply_all((list(alike) for _, alike in groupby(changes, type)), places)
        if refusal is not None:
            self._take_back()
            refusal = self._apply_all(([change] for change in changes), places)
        if refusal is not None:
            self._take_back()
            self._writer.execute("BEGIN IMMEDIATE")
        return refusal

    def _take_back(self) -> None:
        self._forget()
        # What could not begin, or was taken back by SQLite itself, leaves nothing: the failure is the one to tell.
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

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

    def _forget(self) -> None:
        """What was written in this SQL transaction does not count."""
        self._topics.forget()
        self._producers.forget()
        self._transactions.forget()

    def _find_begun(self, changes: Sequence[Change]) -> dict[PlaceOf, int]:
        """Where the partitions begin of which the frame holds something."""
        begun: dict[PlaceOf, int] = {}
        for change in changes:
            if isinstance(change, ExtentAppended) and (topic := self._topics.find(change.topic_id)):
                begun.setdefault((topic, change.partition), change.first)
        return begun

    def _apply_all(self, groups: Iterable[Sequence[Change]], places: Places) -> CommitRefused | None:
        """Changes in groups of one kind, in an SQL transaction of their own; why they are refused, if they are."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            for alike in groups:
                self._appliers[type(alike[0])](alike, places)
        except CommitRefused as refusal:
            return refusal
        except sqlite3.IntegrityError as violation:
            # No retry would ever succeed: to try again for ever would close the log to everybody.
            return CommitRefused(f"the changes break a rule of the schema: {violation}")
        return None

    def _allot_producer_ids(self, change: ProducerIdsAllotted) -> None:
        self._writer.execute("UPDATE producer_ids SET next_id = max(next_id, ?)", (change.next_id,))

    def _move_leader(self, change: LeaderMoved) -> None:
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


def _each(apply: Callable[[Any], None]) -> Applier:
    def apply_all(changes: Sequence[Any], places: Places) -> None:
        for change in changes:
            apply(change)

    return apply_all
