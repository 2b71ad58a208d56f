"""The writing half of the SQLite control plane: one frame's footer becomes one SQL transaction."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any
from uuid import UUID

from holdfast.errors import CommitRefused, KafkaRefusal, StoreFailed
from holdfast.rules.producer import ProducerState, WrittenBatch, append_batch, check_batch
from holdfast.store import footer
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupSaved,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicCreated,
)
from holdfast.store.store import Checkpoint, Place, StoredFrame


class FrameApplier:
    """Applies footers, each change checked again against what is true now.

    `topic_rows` (topic id → row) is shared with the reading half and grows as topics are created.
    """

    def __init__(self, writer: sqlite3.Connection, topic_rows: dict[UUID, int]) -> None:
        self._writer = writer
        self._topic_rows = topic_rows
        self._appliers: dict[type[Change], Callable[[Any, StoredFrame], None]] = {
            TopicCreated: self._create_topic,
            ExtentAppended: self._append_extent,
            ProducerAdvanced: self._advance_producer,
            ProducerIdsAllotted: self._allot_producer_ids,
            GroupOffsetCommitted: self._commit_group_offset,
            GroupOffsetDeleted: self._delete_group_offset,
            GroupSaved: self._save_group,
            GroupDeleted: self._delete_group,
        }

    def checkpoint(self) -> Checkpoint | None:
        """The last frame applied."""
        row = self._writer.execute("SELECT frame, journal, position FROM applied").fetchone()
        return row and Checkpoint(frame=row[0], end=Place(journal=row[1], position=row[2]))

    def apply(self, frame: StoredFrame, changes: Sequence[Change]) -> None:
        """Record one durable frame: see `ControlPlane.apply`."""
        applied = self.checkpoint()
        if applied is not None and frame.number <= applied.frame:
            return
        topics_before = frozenset(self._topic_rows)
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            refusal = self._apply_all(frame, changes)
            self._writer.execute(
                "INSERT INTO applied VALUES (1, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET frame = excluded.frame, journal = excluded.journal, position = excluded.position",
                (frame.number, frame.end.journal, frame.end.position),
            )
            self._writer.execute("COMMIT")
        except sqlite3.Error as failure:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            self._forget_topics_since(topics_before)
            raise StoreFailed(f"the control plane cannot record frame {frame.number}: {failure}") from failure
        if refusal is not None:
            self._forget_topics_since(topics_before)
            raise refusal

    def _apply_all(self, frame: StoredFrame, changes: Sequence[Change]) -> CommitRefused | None:
        """All changes, or none of them and the reason."""
        self._writer.execute("SAVEPOINT changes")
        try:
            for change in changes:
                self._appliers[type(change)](change, frame)
        except CommitRefused as refusal:
            self._writer.execute("ROLLBACK TO changes")
            return refusal
        except sqlite3.IntegrityError as violation:
            # No retry would ever succeed: to try again for ever would close the log to everybody.
            self._writer.execute("ROLLBACK TO changes")
            return CommitRefused(f"frame {frame.number} breaks a rule of the schema: {violation}")
        return None

    def _forget_topics_since(self, topics_before: frozenset[UUID]) -> None:
        for topic_id in self._topic_rows.keys() - topics_before:
            del self._topic_rows[topic_id]

    def _create_topic(self, change: TopicCreated, frame: StoredFrame) -> None:
        try:
            row = self._writer.execute(
                "INSERT INTO topics (topic_id, name, configs) VALUES (?, ?, ?)",
                (change.topic_id.bytes, change.name, json.dumps(change.configs)),
            ).lastrowid
        except sqlite3.IntegrityError:
            raise CommitRefused(f"topic {change.name!r} exists") from None
        assert row is not None
        self._writer.executemany(
            "INSERT INTO partitions VALUES (?, ?, 0, 0, 0)", ((row, p) for p in range(change.partitions))
        )
        self._topic_rows[change.topic_id] = row

    def _append_extent(self, change: ExtentAppended, frame: StoredFrame) -> None:
        topic = self._topic_row(change.topic_id)
        moved = self._writer.execute(
            "UPDATE partitions SET log_end = ?"
            " WHERE topic = ? AND partition = ? AND log_end = ? AND leader_epoch = ?",
            (change.last + 1, topic, change.partition, change.first, change.leader_epoch),
        ).rowcount
        if moved != 1:
            raise CommitRefused(f"{change.topic_id}/{change.partition} does not end at {change.first}")
        self._writer.execute(
            "INSERT INTO extents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                topic,
                change.partition,
                change.last,
                change.first,
                frame.body.journal,
                frame.body.position + change.position,
                change.length_bytes,
                change.max_timestamp,
                change.leader_epoch,
            ),
        )

    def _advance_producer(self, change: ProducerAdvanced, frame: StoredFrame) -> None:
        key = (self._topic_row(change.topic_id), change.partition, change.producer_id)
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
            (*key, state.epoch, json.dumps([astuple(batch) for batch in state.window])),
        )

    def _allot_producer_ids(self, change: ProducerIdsAllotted, frame: StoredFrame) -> None:
        self._writer.execute("UPDATE producer_ids SET next_id = max(next_id, ?)", (change.next_id,))

    def _commit_group_offset(self, change: GroupOffsetCommitted, frame: StoredFrame) -> None:
        self._writer.execute(
            "INSERT OR REPLACE INTO group_offsets VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                change.group,
                self._topic_row(change.topic_id),
                change.partition,
                change.offset,
                change.leader_epoch,
                change.metadata,
                change.committed_ms,
            ),
        )

    def _delete_group_offset(self, change: GroupOffsetDeleted, frame: StoredFrame) -> None:
        self._writer.execute(
            "DELETE FROM group_offsets WHERE group_id = ? AND topic = ? AND partition = ?",
            (change.group, self._topic_rows.get(change.topic_id), change.partition),
        )

    def _save_group(self, change: GroupSaved, frame: StoredFrame) -> None:
        saved = self._writer.execute(
            "INSERT INTO consumer_groups VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET generation = excluded.generation, protocol_type = excluded.protocol_type,"
            " members = excluded.members, saved = excluded.saved WHERE generation <= excluded.generation",
            (
                change.group,
                change.generation,
                change.protocol_type,
                len(change.members),
                footer.encode([change]),
            ),
        ).rowcount
        if saved != 1:
            raise CommitRefused(f"group {change.group!r} is past generation {change.generation}")

    def _delete_group(self, change: GroupDeleted, frame: StoredFrame) -> None:
        self._writer.execute("DELETE FROM consumer_groups WHERE group_id = ?", (change.group,))
        self._writer.execute("DELETE FROM group_offsets WHERE group_id = ?", (change.group,))

    def _topic_row(self, topic_id: UUID) -> int:
        try:
            return self._topic_rows[topic_id]
        except KeyError:
            raise CommitRefused(f"topic {topic_id} does not exist") from None


def decode_producer(epoch: int, batches: str) -> ProducerState:
    """A row of `producers` as the rules see it."""
    window = tuple(
        WrittenBatch(
            first_sequence=row[0],
            last_sequence=row[1],
            first_offset=row[2],
            last_offset=row[3],
            timestamp_ms=row[4],
        )
        for row in json.loads(batches)
    )
    return ProducerState(epoch=epoch, window=window)
