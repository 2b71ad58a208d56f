"""Transactions in the SQLite control plane: instances, their outcomes, and the positions that they stage."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from holdfast.control.plane import OpenInstance
from holdfast.control.sqlite_rows import insert_rows
from holdfast.control.sqlite_topics import TopicTable
from holdfast.errors import CommitRefused
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import Phase, TransactionalId
from holdfast.store.footer import (
    GroupOffsetStaged,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)

OUTCOMES = (Outcome.OPEN, Outcome.COMMITTED, Outcome.ABORTED)
"""By the number that stands for each in the column `outcome`."""

OPEN, COMMITTED, ABORTED = range(len(OUTCOMES))

DROPPED_PER_JOIN_MAX = 16

FIRST_OPEN = (
    "SELECT first_offset FROM joined_partitions JOIN instances USING (instance)"
    " WHERE topic = :topic AND partition = :partition AND outcome = 0 ORDER BY first_offset LIMIT 1"
)
"""Where the oldest open instance of a partition begins: the last stable offset."""

_DROP_DECIDED = (
    "DELETE FROM joined_partitions WHERE topic = ?1 AND partition = ?2 AND first_offset IN"
    " (SELECT first_offset FROM joined_partitions JOIN instances USING (instance)"
    " WHERE topic = ?1 AND partition = ?2 AND outcome <> 0 ORDER BY first_offset LIMIT ?3)"
)

_OUTDATE_OLDER = (
    "UPDATE staged_offsets SET is_outdated = 1 WHERE number IN"
    " (SELECT older.number FROM staged_offsets JOIN staged_offsets AS older USING (group_id, topic, partition)"
    " WHERE staged_offsets.instance = ? AND older.number < staged_offsets.number)"
)

_COLUMNS = (
    "producer_id, producer_epoch, timeout_ms, phase, instance, turn,"
    " previous_producer_id, previous_epoch, started_ms"
)

_INSERT_ID = "INSERT OR IGNORE INTO transactional_ids VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_UPDATE_ID = (
    "UPDATE transactional_ids SET producer_id = ?2, producer_epoch = ?3, timeout_ms = ?4, phase = ?5,"
    " instance = ?6, turn = ?7, previous_producer_id = ?8, previous_epoch = ?9, started_ms = ?10"
    " WHERE transactional_id = ?1 AND turn = ?11 AND instance = ?12"
)

_FORGET = (
    "DELETE FROM instances WHERE instance = ? AND outcome <> 0"
    " AND NOT EXISTS (SELECT 1 FROM extents WHERE extents.instance = instances.instance)"
)

_DROP_UNNAMED = (
    "DELETE FROM joined_partitions WHERE instance = ?1"
    " AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.instance = ?1)"
)


def forget_unnamed(writer: sqlite3.Connection, instances: Collection[int]) -> None:
    """Forget those of these instances that are decided and that no extent names: nobody asks for their outcome."""
    rows = [(instance,) for instance in instances]
    if rows and writer.executemany(_FORGET, rows).rowcount:
        writer.executemany(_DROP_UNNAMED, rows)


class Joined(NamedTuple):
    """An extent of an instance: a row of `joined_partitions` if it is the instance's first in the partition."""

    topic: int
    partition: int
    first_offset: int
    instance: int


class TransactionTable:
    """Applies what a frame says of transactions, inside of its SQL transaction."""

    def __init__(self, writer: sqlite3.Connection, topics: TopicTable) -> None:
        self._writer = writer
        self._topics = topics
        # Instances that the frame so far has begun and not ended: open without a look.
        self._begun: set[int] = set()

    def forget(self) -> None:
        """The frame is over."""
        self._begun.clear()

    def set(self, changes: Sequence[TransactionalIdSet]) -> None:
        """Other states, if those before are what the commit was planned on."""
        for change in changes:
            before = (change.turn_before, change.instance_before)
            statement, condition = (_INSERT_ID, ()) if before == (0, NO_INSTANCE) else (_UPDATE_ID, before)
            if self._writer.execute(statement, (*_row(change), *condition)).rowcount != 1:
                raise CommitRefused(f"transactional id {change.transactional_id!r} has moved on")

    def begin(self, changes: Sequence[TransactionBegun]) -> None:
        """New instances, open, with rising numbers."""
        first, last = changes[0].instance, changes[-1].instance
        counted = self._writer.execute(
            "UPDATE next_instance SET instance = ?2 + 1 WHERE instance <= ?1", (first, last)
        ).rowcount
        if counted != 1 or any(one.instance >= second.instance for one, second in pairwise(changes)):
            raise CommitRefused(f"transaction instance {first} has begun already")
        insert_rows(
            self._writer,
            "INSERT INTO instances",
            [(change.instance, change.producer_id, OPEN) for change in changes],
        )
        self._begun.update(change.instance for change in changes)

    def join(self, joined: Sequence[Joined]) -> None:
        """Extents of open instances; the first of one in a partition says where it begins there."""
        for instance in {each.instance for each in joined} - self._begun:
            self._check_open(instance)
        before = self._writer.total_changes
        insert_rows(self._writer, "INSERT OR IGNORE INTO joined_partitions", joined)
        if self._writer.total_changes == before:
            return
        counts = Counter((each.topic, each.partition) for each in joined)
        for (topic, partition), count in counts.items():
            self._writer.execute(_DROP_DECIDED, (topic, partition, count * DROPPED_PER_JOIN_MAX))

    def stage(self, change: GroupOffsetStaged) -> None:
        """A position that counts once the instance is committed."""
        self._check_open(change.instance)
        self._writer.execute(
            "INSERT OR REPLACE INTO staged_offsets VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                change.group,
                self._topics.get(change.topic_id),
                change.partition,
                change.instance,
                change.offset,
                change.leader_epoch,
                change.metadata,
            ),
        )

    def outdate(self, group: str, topic: int, partition: int) -> None:
        """The group commits a position: what was staged before is older, whenever it is decided."""
        self._writer.execute(
            "UPDATE staged_offsets SET is_outdated = 1 WHERE group_id = ? AND topic = ? AND partition = ?",
            (group, topic, partition),
        )

    def end(self, changes: Sequence[TransactionEnded]) -> None:
        """Decide open instances and publish what they staged, or drop it."""
        instances = [change.instance for change in changes]
        for change in changes:
            decided = self._writer.execute(
                "UPDATE instances SET outcome = ? WHERE instance = ? AND outcome = 0",
                (COMMITTED if change.committed else ABORTED, change.instance),
            ).rowcount
            if decided != 1:
                raise CommitRefused(f"transaction instance {change.instance} is not open")
        self._begun.difference_update(instances)
        if self._writer.execute("SELECT 1 FROM staged_offsets LIMIT 1").fetchone() is not None:
            for change in changes:
                self._publish_staged(change)
        forget_unnamed(self._writer, instances)

    def _publish_staged(self, change: TransactionEnded) -> None:
        if change.committed:
            self._writer.execute(
                "INSERT OR REPLACE INTO group_offsets"
                " SELECT group_id, topic, partition, offset, leader_epoch, metadata, ?"
                " FROM staged_offsets JOIN topics USING (topic) WHERE instance = ? AND NOT is_outdated",
                (change.ended_ms, change.instance),
            )
            self._writer.execute(_OUTDATE_OLDER, (change.instance,))
        self._writer.execute("DELETE FROM staged_offsets WHERE instance = ?", (change.instance,))

    def _check_open(self, instance: int) -> None:
        row = self._writer.execute("SELECT outcome FROM instances WHERE instance = ?", (instance,)).fetchone()
        if row is None or row[0] != OPEN:
            raise CommitRefused(f"transaction instance {instance} is not open")


def _row(change: TransactionalIdSet) -> tuple[object, ...]:
    return (
        change.transactional_id,
        change.producer_id,
        change.producer_epoch,
        change.timeout_ms,
        change.phase,
        change.instance,
        change.turn,
        change.previous_producer_id,
        change.previous_epoch,
        change.started_ms,
    )


class TransactionReader:
    """The verbs that read transactions; `connect` gives the calling thread's own connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], topic_rows: dict[UUID, int]) -> None:
        self._connect = connect
        self._topic_rows = topic_rows

    def find(self, transactional_id: str) -> TransactionalId | None:
        """A transactional id as it stands."""
        row = (
            self._connect()
            .execute(
                f"SELECT {_COLUMNS} FROM transactional_ids WHERE transactional_id = ?",  # noqa: S608 (a constant)
                (transactional_id,),
            )
            .fetchone()
        )
        return row and _state(row)

    def list_all(self) -> dict[str, TransactionalId]:
        """All of them by name."""
        rows = self._connect().execute(
            f"SELECT {_COLUMNS}, transactional_id FROM transactional_ids ORDER BY transactional_id"  # noqa: S608
        )
        return {row[-1]: _state(row[:-1]) for row in rows}

    def find_next_instance(self) -> int:
        """The number that the next instance gets."""
        instance: int = self._connect().execute("SELECT instance FROM next_instance").fetchone()[0]
        return instance

    def list_decided(self) -> set[int]:
        """The instances whose outcome is kept."""
        return {
            row[0] for row in self._connect().execute("SELECT instance FROM instances WHERE outcome <> 0")
        }

    def find_partitions(self, instance: int) -> list[tuple[UUID, int, int]]:
        """(topic id, partition, first offset) of an open instance."""
        rows = self._connect().execute(
            "SELECT topic_id, partition, first_offset FROM joined_partitions JOIN topics USING (topic)"
            " JOIN instances USING (instance) WHERE instance = ? AND outcome = 0 ORDER BY name, partition",
            (instance,),
        )
        return [(UUID(bytes=topic_id), partition, first) for topic_id, partition, first in rows]

    def find_open(self, topic_id: UUID, partition: int) -> dict[int, OpenInstance]:
        """The instances that are open in a partition, by producer id."""
        rows = self._connect().execute(
            "SELECT producer_id, instance, first_offset FROM joined_partitions JOIN instances USING (instance)"
            " WHERE topic = ? AND partition = ? AND outcome = 0",
            (self._topic_rows.get(topic_id), partition),
        )
        return {
            producer_id: OpenInstance(instance=instance, first_offset=first)
            for producer_id, instance, first in rows
        }

    def find_staged(self, group: str) -> set[tuple[UUID, int]]:
        """(topic id, partition) of the positions that open transactions have staged for a group."""
        rows = self._connect().execute(
            "SELECT topic_id, partition FROM staged_offsets JOIN topics USING (topic) WHERE group_id = ?",
            (group,),
        )
        return {(UUID(bytes=topic_id), partition) for topic_id, partition in rows}


def _state(row: tuple[int, int, int, str, int, int, int, int, int]) -> TransactionalId:
    return TransactionalId(
        producer_id=row[0],
        epoch=row[1],
        timeout_ms=row[2],
        phase=Phase(row[3]),
        instance=row[4],
        turn=row[5],
        previous_producer_id=row[6],
        previous_epoch=row[7],
        started_ms=row[8],
    )
