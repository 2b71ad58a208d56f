"""Transactions in the SQLite control plane: instances, their outcomes, and the positions that they stage."""

import sqlite3
from collections.abc import Callable, Iterable
from uuid import UUID

from holdfast.control.plane import OpenInstance
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

OPEN = OUTCOMES.index(Outcome.OPEN)

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

_JOIN = (
    "INSERT OR IGNORE INTO joined_partitions"
    " SELECT ?1, ?2, ?3, instance FROM instances WHERE instance = ?4 AND outcome = 0"
)


_FORGET = (
    "DELETE FROM instances WHERE instance = ? AND outcome <> 0"
    " AND NOT EXISTS (SELECT 1 FROM extents WHERE extents.instance = instances.instance)"
)


def forget_unnamed(writer: sqlite3.Connection, instances: Iterable[int]) -> None:
    """Forget those of these instances that are decided and that no extent names: nobody asks for their outcome."""
    for instance in instances:
        if writer.execute(_FORGET, (instance,)).rowcount:
            writer.execute("DELETE FROM joined_partitions WHERE instance = ?", (instance,))


class TransactionTable:
    """Applies what a frame says of transactions, inside of its SQL transaction."""

    def __init__(self, writer: sqlite3.Connection, topics: TopicTable) -> None:
        self._writer = writer
        self._topics = topics

    def set(self, change: TransactionalIdSet) -> None:
        """Another state, if the one before is what the commit was planned on."""
        state = (
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
        before = (change.turn_before, change.instance_before)
        statement, condition = (_INSERT_ID, ()) if before == (0, NO_INSTANCE) else (_UPDATE_ID, before)
        if self._writer.execute(statement, (change.transactional_id, *state, *condition)).rowcount != 1:
            raise CommitRefused(f"transactional id {change.transactional_id!r} has moved on")

    def begin(self, change: TransactionBegun) -> None:
        """A new instance, open."""
        counted = self._writer.execute(
            "UPDATE next_instance SET instance = ?1 + 1 WHERE instance <= ?1", (change.instance,)
        ).rowcount
        if counted != 1:
            raise CommitRefused(f"transaction instance {change.instance} has begun already")
        self._writer.execute(
            "INSERT INTO instances VALUES (?, ?, ?)", (change.instance, change.producer_id, OPEN)
        )

    def join(self, topic: int, partition: int, first_offset: int, instance: int) -> None:
        """An extent of an open instance; its first in the partition says where the instance begins there."""
        joined = self._writer.execute(_JOIN, (topic, partition, first_offset, instance)).rowcount
        if not joined:
            self._check_open(instance)
        else:
            self._writer.execute(_DROP_DECIDED, (topic, partition, DROPPED_PER_JOIN_MAX))

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

    def end(self, change: TransactionEnded) -> None:
        """Decide an open instance and publish what it staged, or drop it."""
        outcome = OUTCOMES.index(Outcome.COMMITTED if change.committed else Outcome.ABORTED)
        decided = self._writer.execute(
            "UPDATE instances SET outcome = ? WHERE instance = ? AND outcome = 0", (outcome, change.instance)
        ).rowcount
        if decided != 1:
            raise CommitRefused(f"transaction instance {change.instance} is not open")
        if change.committed:
            self._writer.execute(
                "INSERT OR REPLACE INTO group_offsets"
                " SELECT group_id, topic, partition, offset, leader_epoch, metadata, ?"
                " FROM staged_offsets JOIN topics USING (topic) WHERE instance = ? AND NOT is_outdated",
                (change.ended_ms, change.instance),
            )
            self._writer.execute(_OUTDATE_OLDER, (change.instance,))
        self._writer.execute("DELETE FROM staged_offsets WHERE instance = ?", (change.instance,))
        forget_unnamed(self._writer, [change.instance])

    def _check_open(self, instance: int) -> None:
        row = self._writer.execute("SELECT outcome FROM instances WHERE instance = ?", (instance,)).fetchone()
        if row is None or row[0] != OPEN:
            raise CommitRefused(f"transaction instance {instance} is not open")


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
