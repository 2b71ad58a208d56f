"""Trimming the SQLite control plane: rows that nobody sees any more go in small steps, in no frame."""

import sqlite3

from holdfast.control.coordination import COORDINATED, Coordination
from holdfast.control.sqlite_spans import LEVELS, SPAN_BITS
from holdfast.control.sqlite_transactions import forget_unnamed

# CROSS JOIN: the few partitions and deleted topics are looked through, never all extents.
TRIM_EXPIRED = (
    "DELETE FROM extents WHERE (topic, partition, last_offset) IN"
    " (SELECT topic, partition, last_offset FROM partitions CROSS JOIN removals USING (topic, partition)"
    " CROSS JOIN extents USING (topic, partition) WHERE last_offset < max(log_start, extents_from) LIMIT ?)"
    " RETURNING instance"
)
# There are fewer spans than extents: they are gone when those are, and need not be counted.
TRIM_SPANS = (
    *(
        "DELETE FROM extent_spans WHERE (topic, partition, level, span) IN"  # noqa: S608 (numbers of ours)
        " (SELECT topic, partition, level, span FROM partitions CROSS JOIN removals USING (topic, partition)"
        f" CROSS JOIN extent_spans USING (topic, partition) WHERE level = {level}"
        f" AND span < max(log_start, trimmed_to) >> {SPAN_BITS * level} LIMIT ?)"
        for level in range(1, LEVELS + 1)
    ),
    "DELETE FROM extent_spans WHERE (topic, partition, level, span) IN"
    " (SELECT topic, partition, level, span FROM deleted_topics CROSS JOIN extent_spans USING (topic) LIMIT ?)",
)
TRIM_DELETED = (
    "DELETE FROM extents WHERE (topic, partition, last_offset) IN"
    " (SELECT topic, partition, last_offset FROM deleted_topics CROSS JOIN extents USING (topic) LIMIT ?)"
    " RETURNING instance",
    "DELETE FROM segments WHERE (topic, partition, store, end_offset) IN (SELECT topic, partition, store, end_offset"
    " FROM deleted_topics CROSS JOIN segments USING (topic) LIMIT ?) RETURNING NULL",
    "DELETE FROM producers WHERE (topic, partition, producer_id) IN"
    " (SELECT topic, partition, producer_id FROM deleted_topics CROSS JOIN producers USING (topic) LIMIT ?)"
    " RETURNING NULL",
    "DELETE FROM leader_epochs WHERE (topic, partition, leader_epoch) IN (SELECT topic, partition, leader_epoch"
    " FROM deleted_topics CROSS JOIN leader_epochs USING (topic) LIMIT ?) RETURNING NULL",
    "DELETE FROM group_offsets WHERE (group_id, topic, partition) IN (SELECT group_id, topic, partition"
    " FROM group_offsets WHERE topic IN (SELECT topic FROM deleted_topics) LIMIT ?) RETURNING NULL",
)
FORGET_BELOW_MXRO = (
    "DELETE FROM instances WHERE outcome <> 0 AND NOT EXISTS (SELECT 1 FROM extents CROSS JOIN removals"
    " USING (topic, partition) WHERE extents.instance = instances.instance AND last_offset >= mxro)"
)
"""Without a look at who still has records of the instance: only where nobody waits for those who are away."""


def trim(writer: sqlite3.Connection, rows_max: int, coordination: Coordination = COORDINATED) -> int:
    """Delete up to so many rows, in one transaction; how many there were."""
    writer.execute("BEGIN IMMEDIATE")
    try:
        trimmed = _trim(writer, rows_max)
        if not coordination.waits_for_absent:
            writer.execute(FORGET_BELOW_MXRO)
    except BaseException:
        writer.execute("ROLLBACK")
        raise
    writer.execute("COMMIT")
    return trimmed


def _trim(writer: sqlite3.Connection, rows_max: int) -> int:
    for statement in TRIM_SPANS:
        writer.execute(statement, (rows_max,))
    trimmed = _delete(writer, TRIM_EXPIRED, rows_max)
    if writer.execute("SELECT 1 FROM deleted_topics LIMIT 1").fetchone() is None:
        return trimmed
    for statement in TRIM_DELETED:
        trimmed += _delete(writer, statement, rows_max - trimmed)
    if trimmed < rows_max:
        writer.execute("DELETE FROM deleted_topics")
    return trimmed


def _delete(writer: sqlite3.Connection, statement: str, rows_max: int) -> int:
    """How many rows; with extents go the instances that only they named, no more of them than there were extents."""
    deleted = writer.execute(statement, (rows_max,)).fetchall()
    forget_unnamed(writer, {instance for (instance,) in deleted if instance is not None})
    return len(deleted)
