"""Consumer groups and their positions in the SQLite control plane, inside of the transaction of a frame."""

import sqlite3

from holdfast.control.sqlite_topics import TopicTable
from holdfast.control.sqlite_transactions import TransactionTable
from holdfast.errors import CommitRefused
from holdfast.store import footer
from holdfast.store.footer import GroupDeleted, GroupOffsetCommitted, GroupOffsetDeleted, GroupSaved


class GroupTable:
    """Applies what a frame says of groups."""

    def __init__(
        self, writer: sqlite3.Connection, topics: TopicTable, transactions: TransactionTable
    ) -> None:
        self._writer = writer
        self._topics = topics
        self._transactions = transactions

    def commit_offset(self, change: GroupOffsetCommitted) -> None:
        """A position; what was staged before is outdated by it."""
        topic = self._topics.get(change.topic_id)
        self._transactions.outdate(change.group, topic, change.partition)
        self._writer.execute(
            "INSERT OR REPLACE INTO group_offsets VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                change.group,
                topic,
                change.partition,
                change.offset,
                change.leader_epoch,
                change.metadata,
                change.committed_ms,
            ),
        )

    def delete_offset(self, change: GroupOffsetDeleted) -> None:
        """A position, staged or committed."""
        key = (change.group, self._topics.find(change.topic_id), change.partition)
        for table in ("group_offsets", "staged_offsets"):
            self._writer.execute(
                f"DELETE FROM {table} WHERE group_id = ? AND topic = ? AND partition = ?",  # noqa: S608
                key,
            )

    def save(self, change: GroupSaved) -> None:
        """As a rebalance left it, if none of a later generation is there."""
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

    def delete(self, change: GroupDeleted) -> None:
        """With all its positions."""
        self._writer.execute("DELETE FROM consumer_groups WHERE group_id = ?", (change.group,))
        self._writer.execute("DELETE FROM group_offsets WHERE group_id = ?", (change.group,))
        self._writer.execute("DELETE FROM staged_offsets WHERE group_id = ?", (change.group,))
