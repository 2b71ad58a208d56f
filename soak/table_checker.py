"""Holds what was told and seen of a compacted topic against what was done to it. Pure; rules in docs/testing.md."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from soak.history import Violation
from soak.table_history import (
    Outcome,
    ReplicaTable,
    SegmentCounts,
    TableHistory,
    TableReader,
    TableSighting,
    TableWrite,
)

STALE = "stale"
RESURRECTED = "resurrected"
LOST_KEY = "lost-key"
TAKEN_BACK = "aborted-read"
UNSENT = "unsent"
BACKWARDS = "backwards"
MOVED = "moved"
REPLICAS = "replicas"
NOT_FORGOTTEN = "not-forgotten"

Oracle = Mapping[bytes, Sequence[TableWrite]]
"""What each key may be in the end: its last write, and those after it that nobody knows of."""


def find_oracle(histories: Iterable[TableHistory]) -> dict[bytes, list[TableWrite]]:
    """By key; empty for one of which nothing was ever written."""
    oracle: dict[bytes, list[TableWrite]] = defaultdict(list)
    for write in (write for history in histories for write in history.writes):
        if write.outcome is Outcome.WRITTEN:
            oracle[write.key] = [write]
        elif write.outcome is Outcome.UNKNOWN:
            oracle[write.key].append(write)
        else:
            oracle[write.key] += []
    return oracle


def check_replicas(histories: Sequence[TableHistory], tables: Sequence[ReplicaTable]) -> Iterator[Violation]:
    """All replicas of a partition begin and end at the same offsets, and each shows what was written last."""
    oracle = find_oracle(histories)
    partition_of = {write.key: write.partition for history in histories for write in history.writes}
    first: dict[int, ReplicaTable] = {}
    for table in tables:
        other = first.setdefault(table.partition, table)
        bounds, expected = (table.log_start, table.last_stable), (other.log_start, other.last_stable)
        where = f"partition {table.partition} on node {table.node}"
        if bounds != expected:
            yield Violation(REPLICAS, f"{where} is {bounds}, and {expected} on node {other.node}")
        if table.versions != other.versions:
            yield Violation(REPLICAS, f"{where} shows another table than node {other.node}")
        for key in table.versions.keys() - partition_of.keys():
            yield Violation(UNSENT, f"{where} has {key!r}, which nobody wrote")
        for key, partition in partition_of.items():
            if partition == table.partition:
                yield from _check_key(where, key, table.versions.get(key), oracle[key])


def check_reader(
    histories: Sequence[TableHistory], reader: TableReader, *, retention_s: float
) -> Iterator[Violation]:
    """It saw no key go back, nothing that was taken back, and knows in the end what was written last.

    A delete may have been forgotten before it came by, but only if it took longer than delete.retention.ms from the
    value that it saw to the place where the delete was.
    """
    sent = {write.version: write for history in histories for write in history.writes}
    last: dict[bytes, TableSighting] = {}
    offsets: dict[int, int] = {}
    for sighting in reader.seen:
        what = f"{reader.name} saw {sighting}"
        write = sent.get(sighting.version)
        if write is None or (write.key, write.is_delete) != (sighting.key, sighting.is_delete):
            yield Violation(UNSENT, what)
        elif write.outcome is Outcome.TAKEN_BACK:
            yield Violation(TAKEN_BACK, what)
        elif write.offset is not None and write.offset != sighting.offset:
            yield Violation(MOVED, f"{what}, which was written at {write.offset}")
        before = last.get(sighting.key)
        if before is not None and before.version >= sighting.version:
            yield Violation(BACKWARDS, f"{what} after {before}")
        if offsets.get(sighting.partition, -1) >= sighting.offset:
            yield Violation(BACKWARDS, f"{what} after offset {offsets[sighting.partition]}")
        offsets[sighting.partition] = sighting.offset
        last[sighting.key] = sighting
    for key, choices in find_oracle(histories).items():
        final = last.get(key)
        version = None if final is None or final.is_delete else final.version
        if final is not None and _may_have_missed(reader, final, choices, retention_s):
            continue
        yield from _check_key(f"{reader.name}'s table", key, version, choices)


def check_segments(histories: Sequence[TableHistory], counts: Iterable[SegmentCounts]) -> Iterator[Violation]:
    """Nothing is left but one record for every key that is there: no delete, no outcome, nothing taken back."""
    oracle = find_oracle(histories)
    live: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for choices in oracle.values():
        if choices:
            is_sure = not any(choice.is_delete for choice in choices) and _is_certain(choices)
            live[choices[0].partition][0] += is_sure
            live[choices[0].partition][1] += not all(choice.is_delete for choice in choices)
    for count in counts:
        least, most = live[count.partition]
        if count.deletes or count.outcomes or count.transactional:
            yield Violation(NOT_FORGOTTEN, str(count))
        if count.records != count.keys or not least <= count.keys <= most:
            yield Violation(NOT_FORGOTTEN, f"{count}, where {least} to {most} keys are there")


def _check_key(
    where: str, key: bytes, version: int | None, choices: Sequence[TableWrite]
) -> Iterator[Violation]:
    if version is None:
        if _is_certain(choices) and not any(choice.is_delete for choice in choices):
            yield Violation(LOST_KEY, f"{where} lacks {key!r}, last written as {choices[-1].version}")
    elif not any(choice.version == version and not choice.is_delete for choice in choices):
        is_gone = all(choice.is_delete for choice in choices)
        yield Violation(
            RESURRECTED if is_gone else STALE,
            f"{where} has {key!r} as {version}, not as one of {[choice.version for choice in choices]}",
        )


def _is_certain(choices: Sequence[TableWrite]) -> bool:
    """Whether the key was written at all."""
    return any(choice.outcome is Outcome.WRITTEN for choice in choices)


def _may_have_missed(
    reader: TableReader, final: TableSighting, choices: Sequence[TableWrite], retention_s: float
) -> bool:
    """Whether a delete of the key may have been forgotten between what the reader saw and where the delete was."""
    deletes = [choice for choice in choices if choice.is_delete]
    return any(
        delete.version > final.version and _passed_s(reader, delete) - final.asked_s > retention_s
        for delete in deletes
    )


def _passed_s(reader: TableReader, write: TableWrite) -> float:
    """When the reader had certainly passed the place of a write."""
    if write.offset is not None:
        for sighting in reader.seen:
            if sighting.partition == write.partition and sighting.offset > write.offset:
                return sighting.got_s
    return reader.ended_s
