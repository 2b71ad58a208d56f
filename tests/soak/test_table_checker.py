"""The checker of compacted topics finds every kind of lie, and says nothing of what is true."""

from dataclasses import replace

import pytest

from soak import table_checker
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

RETENTION_S = 10.0


def write(
    version: int, key: bytes, *, is_delete: bool = False, outcome: Outcome = Outcome.WRITTEN
) -> TableWrite:
    return TableWrite(
        key=key, version=version, partition=0, is_delete=is_delete, offset=version, outcome=outcome
    )


HISTORY = TableHistory(
    name="writer",
    writes=[
        write(0, b"a"),
        write(1, b"b"),
        write(2, b"c"),
        write(3, b"a"),
        write(4, b"b", is_delete=True),
        write(5, b"d", outcome=Outcome.TAKEN_BACK),
        write(6, b"c", outcome=Outcome.UNKNOWN),
    ],
)
TABLE = ReplicaTable(node=1, partition=0, log_start=0, last_stable=7, versions={b"a": 3, b"c": 6})
COUNTS = SegmentCounts(store=1, partition=0, records=2, keys=2, deletes=0, transactional=0, outcomes=0)


def sighting(version: int, key: bytes, *, at_s: float = 0.0, is_delete: bool = False) -> TableSighting:
    return TableSighting(key, version, 0, version, is_delete, at_s, at_s)


SEEN = [
    sighting(0, b"a"),
    sighting(1, b"b"),
    sighting(2, b"c"),
    sighting(3, b"a"),
    sighting(4, b"b", is_delete=True),
]


def rules(found: list[Violation]) -> set[str]:
    return {violation.rule for violation in found}


def check_tables(*tables: ReplicaTable) -> set[str]:
    return rules(list(table_checker.check_replicas([HISTORY], tables)))


def check_seen(seen: list[TableSighting], ended_s: float = 1.0) -> set[str]:
    reader = TableReader(name="reader", seen=seen, ended_s=ended_s)
    return rules(list(table_checker.check_reader([HISTORY], reader, retention_s=RETENTION_S)))


@pytest.mark.parametrize("version", [2, 6])
def test_a_write_of_unknown_outcome_may_be_there_or_not(version: int) -> None:
    """But the one before it, or it."""
    assert not check_tables(replace(TABLE, versions={b"a": 3, b"c": version}))


@pytest.mark.parametrize(
    ("versions", "rule"),
    [
        ({b"a": 0, b"c": 6}, table_checker.STALE),
        ({b"a": 3}, table_checker.LOST_KEY),
        ({b"a": 3, b"b": 1, b"c": 6}, table_checker.RESURRECTED),
        ({b"a": 3, b"c": 6, b"d": 5}, table_checker.RESURRECTED),
        ({b"a": 3, b"c": 6, b"x": 9}, table_checker.UNSENT),
    ],
)
def test_a_replica_that_shows_something_else(versions: dict[bytes, int], rule: str) -> None:
    """An old value, a lost key, one that was deleted or aborted, one that nobody wrote."""
    assert check_tables(replace(TABLE, versions=versions)) == {rule}


@pytest.mark.parametrize(
    "other",
    [
        replace(TABLE, node=2, last_stable=6),
        replace(TABLE, node=2, log_start=1),
        replace(TABLE, node=2, versions={b"a": 3, b"c": 2}),
    ],
)
def test_replicas_that_differ(other: ReplicaTable) -> None:
    """Even where each alone would do."""
    assert check_tables(TABLE, other) == {table_checker.REPLICAS}


def test_a_reader_that_saw_what_is_true() -> None:
    """With what was compacted away meanwhile, or without."""
    assert not check_seen(SEEN)
    assert not check_seen(SEEN[2:])


@pytest.mark.parametrize(
    ("seen", "rule"),
    [
        ([*SEEN, sighting(5, b"d")], table_checker.TAKEN_BACK),
        ([*SEEN, sighting(9, b"a")], table_checker.UNSENT),
        ([*SEEN[:4], sighting(4, b"b")], table_checker.UNSENT),
        ([*SEEN, replace(sighting(3, b"a"), offset=5)], table_checker.MOVED),
        ([*SEEN[:4], sighting(0, b"a"), *SEEN[4:]], table_checker.BACKWARDS),
        (SEEN[3:], table_checker.LOST_KEY),
        ([*SEEN[:3], SEEN[4]], table_checker.STALE),
    ],
)
def test_a_reader_that_was_lied_to(seen: list[TableSighting], rule: str) -> None:
    """Aborted, made up, changed, moved, going back, left out."""
    assert rule in check_seen(seen)


def test_a_delete_may_be_missed_only_after_its_grace() -> None:
    """From when the value was asked for to when the place of the delete was passed."""
    assert check_seen(SEEN[:4], ended_s=RETENTION_S - 1) == {table_checker.RESURRECTED}
    assert not check_seen(SEEN[:4], ended_s=RETENTION_S + 1)
    passed_early = [*SEEN[:4], sighting(6, b"c", at_s=RETENTION_S - 1)]
    assert check_seen(passed_early, ended_s=RETENTION_S + 1) == {table_checker.RESURRECTED}


def test_what_is_left_in_the_segments() -> None:
    """One record for every key, and nothing else."""
    assert not list(table_checker.check_segments([HISTORY], [COUNTS]))
    for wrong in (
        {"deletes": 1},
        {"outcomes": 1},
        {"transactional": 1},
        {"records": 3},
        {"records": 3, "keys": 3},
        {"records": 1, "keys": 1},
    ):
        found = list(table_checker.check_segments([HISTORY], [replace(COUNTS, **wrong)]))
        assert rules(found) == {table_checker.NOT_FORGOTTEN}, wrong
