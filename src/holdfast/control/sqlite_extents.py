"""Extents in the SQLite control plane, as the frames bring them."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.control.sqlite_log import PLACE
from holdfast.control.sqlite_rows import insert_rows
from holdfast.control.sqlite_spans import SPAN_BITS, close_spans
from holdfast.control.sqlite_topics import TopicTable
from holdfast.control.sqlite_transactions import Joined, TransactionTable
from holdfast.errors import CommitRefused
from holdfast.rules.transaction import NO_INSTANCE
from holdfast.store.footer import Change, ExtentAppended
from holdfast.store.store import StoredFrame

Places = dict[int, bytes]
"""What the column `places` says, by the identity of the extent's change."""


@dataclass(slots=True)
class _Growth:
    """What a frame appends to one partition."""

    begun_by: ExtentAppended
    end: int


class ExtentTable:
    """Appends to logs, inside of the transaction of the frame."""

    def __init__(
        self, writer: sqlite3.Connection, topics: TopicTable, transactions: TransactionTable
    ) -> None:
        self._writer = writer
        self._topics = topics
        self._transactions = transactions

    def append(self, changes: Sequence[ExtentAppended], places: Places) -> None:
        """Each continues its log where that ends, in the present leader epoch; or the frame is refused."""
        topics = [self._topics.get(change.topic_id) for change in changes]
        self._grow(topics, changes)
        joined = [
            Joined(topic, change.partition, change.first, change.instance)
            for topic, change in zip(topics, changes, strict=True)
            if change.instance != NO_INSTANCE
        ]
        if joined:
            self._transactions.join(joined)
        insert_rows(
            self._writer,
            "INSERT INTO extents",
            [
                (
                    topic,
                    change.partition,
                    change.last,
                    change.first,
                    places[id(change)],
                    change.length_bytes,
                    change.max_timestamp,
                    change.leader_epoch,
                    None if change.instance == NO_INSTANCE else change.instance,
                    change.first_timestamp,
                    0,
                )
                for topic, change in zip(topics, changes, strict=True)
            ],
        )
        for topic, change in zip(topics, changes, strict=True):
            # Asked here as well: nearly all lie in the span of the extent before.
            if (change.first - 1) >> SPAN_BITS != change.last >> SPAN_BITS:
                close_spans(self._writer, topic, change.partition, change.first, change.last)

    def _grow(self, topics: Sequence[int], changes: Sequence[ExtentAppended]) -> None:
        growths: dict[tuple[int, int], _Growth] = {}
        for topic, change in zip(topics, changes, strict=True):
            growth = growths.get((topic, change.partition))
            if growth is None:
                growths[topic, change.partition] = _Growth(change, change.last + 1)
            elif (growth.end, growth.begun_by.leader_epoch) != (change.first, change.leader_epoch):
                raise _misplaced(change)
            else:
                growth.end = change.last + 1
        for (topic, partition), growth in growths.items():
            change = growth.begun_by
            moved = self._writer.execute(
                "UPDATE partitions SET log_end = ?"
                " WHERE topic = ? AND partition = ? AND log_end = ? AND leader_epoch = ?",
                (growth.end, topic, partition, change.first, change.leader_epoch),
            ).rowcount
            if moved != 1:
                raise _misplaced(change)


def _misplaced(change: ExtentAppended) -> CommitRefused:
    return CommitRefused(f"{change.topic_id}/{change.partition} does not end at {change.first}")


def find_places(frames: Sequence[StoredFrame], changes: Sequence[Change]) -> Places:
    """Where each extent lies on the stores that have the frame."""
    extents = [change for change in changes if isinstance(change, ExtentAppended)]
    places = dict.fromkeys(map(id, extents), b"")
    for frame in frames:
        journal, position = frame.body.journal, frame.body.position
        for extent in extents:
            if frame.store in extent.stores:
                places[id(extent)] += PLACE.pack(frame.store, journal, position)
                position += extent.length_bytes
    return places
