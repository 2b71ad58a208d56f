"""Topics and partitions in the SQLite control plane: made, changed, deleted, and later trimmed."""

import json
import sqlite3
from uuid import UUID

from holdfast.control.sqlite_replicas import ReplicaRows
from holdfast.errors import CommitRefused
from holdfast.store.footer import (
    LogStartMoved,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)


class TopicTable:
    """Applies changes to topics, inside of the transaction of their frame.

    `rows` (topic id → number) is what readers use: it changes with `publish`, when the frame is committed.
    """

    def __init__(self, writer: sqlite3.Connection, rows: dict[UUID, int], replicas: ReplicaRows) -> None:
        self._writer = writer
        self._rows = rows
        self._replicas = replicas
        self._staged: dict[UUID, int | None] = {}

    def find(self, topic_id: UUID) -> int | None:
        """The topic's number, as the frame so far has it."""
        if self._staged and topic_id in self._staged:
            return self._staged[topic_id]
        return self._rows.get(topic_id)

    def get(self, topic_id: UUID) -> int:
        """The same; CommitRefused if there is no such topic."""
        row = self.find(topic_id)
        if row is None:
            raise CommitRefused(f"topic {topic_id} does not exist")
        return row

    def publish(self) -> None:
        """The frame is committed."""
        for topic_id, row in self._staged.items():
            if row is None:
                self._rows.pop(topic_id, None)
            else:
                self._rows[topic_id] = row
        self._staged.clear()

    def forget(self) -> None:
        """The frame had no effect."""
        self._staged.clear()

    def create(self, change: TopicCreated) -> None:
        """A topic with empty partitions."""
        try:
            row = self._writer.execute(
                "INSERT INTO topics (topic_id, name, configs) VALUES (?, ?, ?)",
                (change.topic_id.bytes, change.name, json.dumps(change.configs)),
            ).lastrowid
        except sqlite3.IntegrityError:
            raise CommitRefused(f"topic {change.name!r} exists") from None
        assert row is not None
        self._insert_partitions(row, 0, change.replicas)
        self._staged[change.topic_id] = row

    def delete(self, change: TopicDeleted) -> None:
        """Out of sight at once, whatever its size; `trim` takes the rest away."""
        row = self.get(change.topic_id)
        self._writer.execute("INSERT INTO deleted_topics VALUES (?)", (row,))
        self._writer.execute("DELETE FROM partitions WHERE topic = ?", (row,))
        self._writer.execute("DELETE FROM removals WHERE topic = ?", (row,))
        self._writer.execute("DELETE FROM replicas WHERE topic = ?", (row,))
        # As many rows as transactions are open, not as many as there were.
        self._writer.execute("DELETE FROM joined_partitions WHERE topic = ?", (row,))
        self._writer.execute("DELETE FROM staged_offsets WHERE topic = ?", (row,))
        self._writer.execute("DELETE FROM topics WHERE topic = ?", (row,))
        self._staged[change.topic_id] = None

    def add_partitions(self, change: PartitionsAdded) -> None:
        """More partitions, if there are as many as the commit was planned with."""
        row = self.get(change.topic_id)
        (count,) = self._writer.execute("SELECT count(*) FROM partitions WHERE topic = ?", (row,)).fetchone()
        if count != change.first:
            raise CommitRefused(f"{change.topic_id} has {count} partitions, not {change.first}")
        self._insert_partitions(row, change.first, change.replicas)

    def configure(self, change: TopicConfigured) -> None:
        """Other configs."""
        self._writer.execute(
            "UPDATE topics SET configs = ? WHERE topic = ?",
            (json.dumps(change.configs), self.get(change.topic_id)),
        )

    def move_log_start(self, change: LogStartMoved) -> None:
        """Forward, and never past the end.

        Segments that lie below go with it, and not when they are trimmed: whether a manifest that replaces them
        fits must not depend on when that is.
        """
        topic = self.get(change.topic_id)
        moved = self._writer.execute(
            "UPDATE partitions SET log_start = max(log_start, ?)"
            " WHERE topic = ? AND partition = ? AND log_end >= ?",
            (change.log_start, topic, change.partition, change.log_start),
        ).rowcount
        if moved != 1:
            raise CommitRefused(f"{change.topic_id}/{change.partition} ends below {change.log_start}")
        self._writer.execute(
            "DELETE FROM segments WHERE topic = ?1 AND partition = ?2 AND end_offset <= ?3 AND store IN"
            " (SELECT store FROM replicas WHERE topic = ?1 AND partition = ?2)",
            (topic, change.partition, change.log_start),
        )

    def _insert_partitions(self, row: int, first: int, replicas: list[list[int]]) -> None:
        numbered = list(enumerate(replicas, first))
        self._writer.executemany(
            "INSERT INTO partitions VALUES (?, ?, ?, ?, 0, 0, 0, '[]', '[]')",
            ((row, partition, json.dumps(stores), stores[0]) for partition, stores in numbered),
        )
        self._writer.executemany(
            "INSERT INTO leader_epochs VALUES (?, ?, 0, 0)", ((row, partition) for partition, _ in numbered)
        )
        for partition, stores in numbered:
            self._replicas.found(row, partition, stores)
