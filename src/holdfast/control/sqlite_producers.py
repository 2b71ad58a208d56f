"""Idempotent producers in the SQLite control plane."""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.control.sqlite_rows import insert_rows
from holdfast.control.sqlite_topics import TopicTable
from holdfast.errors import CommitRefused, KafkaRefusal
from holdfast.rules.producer import WINDOW_BATCHES, ProducerState, WrittenBatch, append_batch, check_batch
from holdfast.store.footer import ProducerAdvanced

PRODUCERS_REMEMBERED_MAX = 10_000

# The text of lists of integers is JSON, at a fraction of the price of an encoder.
_BATCH = "[%d, %d, %d, %d, %d]"

Key = tuple[int, int, int]
"""Topic, partition, producer id."""


class _Row(NamedTuple):
    """A row of `producers`, and the text of each batch of its window."""

    state: ProducerState
    texts: tuple[str, ...]


class ProducerTable:
    """Applies batches of producers, inside of the transaction of their frame.

    Rows are remembered: nobody else writes them, and only `publish` says that what was written counts. Those of
    deleted topics are trimmed elsewhere; numbers of topics are never given twice, so nobody asks for them.
    """

    def __init__(self, writer: sqlite3.Connection, topics: TopicTable) -> None:
        self._writer = writer
        self._topics = topics
        self._known: dict[Key, _Row] = {}
        self._staged: dict[Key, _Row] = {}

    def advance(self, changes: Sequence[ProducerAdvanced]) -> None:
        """Each is the next batch of its producer, or the frame is refused."""
        advanced: dict[Key, _Row] = {}
        for change in changes:
            key = (self._topics.get(change.topic_id), change.partition, change.producer_id)
            row = advanced.get(key) or self._staged.get(key) or self._known.get(key) or self._read(key)
            advanced[key] = _advanced(row, change)
        insert_rows(
            self._writer,
            "INSERT OR REPLACE INTO producers",
            [(*key, row.state.epoch, f"[{', '.join(row.texts)}]") for key, row in advanced.items()],
        )
        self._staged.update(advanced)

    def publish(self) -> None:
        """The frame is committed."""
        if len(self._known) > PRODUCERS_REMEMBERED_MAX:
            self._known.clear()
        self._known.update(self._staged)
        self._staged.clear()

    def forget(self) -> None:
        """The frame had no effect."""
        self._staged.clear()

    def _read(self, key: Key) -> _Row | None:
        row = self._writer.execute(
            "SELECT producer_epoch, batches FROM producers"
            " WHERE topic = ? AND partition = ? AND producer_id = ?",
            key,
        ).fetchone()
        if row is None:
            return None
        state = decode_producer(*row)
        return _Row(state, tuple(_BATCH % batch for batch in state.window))


def _advanced(row: _Row | None, change: ProducerAdvanced) -> _Row:
    state = None if row is None else row.state
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
        change.first_sequence,
        change.last_sequence,
        change.first_offset,
        change.last_offset,
        change.timestamp_ms,
    )
    after = append_batch(state, epoch=change.producer_epoch, batch=batch)
    before = () if row is None or len(after.window) == 1 else row.texts[1 - WINDOW_BATCHES :]
    return _Row(after, (*before, _BATCH % batch))


def decode_producer(epoch: int, batches: str) -> ProducerState:
    """A row of `producers` as the rules see it."""
    window = tuple(map(WrittenBatch._make, json.loads(batches)))
    return ProducerState(epoch=epoch, window=window)
