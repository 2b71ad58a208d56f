"""What transactions cost in SQLite, and that they outlive the process."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.control.sqlite_transactions import DROPPED_PER_JOIN_MAX
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupOffsetStaged,
    TopicCreated,
    TopicDeleted,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from tests.control.answers import answers
from tests.control.frames import Apply

TOPIC = UUID(int=1)
PARTITIONS = 200
TRANSACTIONS = 10_000
PER_FRAME = 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file lies."""
    return tmp_path / "control.db"


@pytest.fixture
def plane(path: Path) -> Iterator[SqliteControlPlane]:
    """An empty control plane."""
    plane = SqliteControlPlane(path)
    plane.add_store(1)
    yield plane
    plane.close()


@pytest.fixture
def apply(plane: SqliteControlPlane) -> Apply:
    """Frame 1 has made a topic of many partitions."""
    apply = Apply(plane)
    apply(TopicCreated("orders", TOPIC, [[1]] * PARTITIONS, {}))
    return apply


def _extent(partition: int, offset: int, instance: int) -> ExtentAppended:
    return ExtentAppended(TOPIC, partition, offset, offset, [1], 100, 5, 0, instance)


def _joined(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [instance for (instance,) in connection.execute("SELECT instance FROM joined_partitions")]


def _cost(connection: sqlite3.Connection, ask: object) -> tuple[int, int]:
    """(rows written, steps of SQLite's machine) that a call costs."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    assert callable(ask)
    rows = connection.total_changes
    connection.set_progress_handler(step, 1)
    try:
        ask()
    finally:
        connection.set_progress_handler(None, 1)
    return connection.total_changes - rows, steps


def test_where_instances_begin_is_remembered_for_the_open_ones(
    plane: SqliteControlPlane, apply: Apply, path: Path
) -> None:
    """However many came and went beside one that stays open; nor does it matter that it ended at last."""
    oldest, newest = 1, TRANSACTIONS + 1
    apply(TransactionBegun(oldest, 9), _extent(0, 0, oldest))
    for first in range(1, TRANSACTIONS + 1, PER_FRAME):
        changes: list[Change] = []
        for offset in range(first, first + PER_FRAME):
            changes += [TransactionBegun(offset + 1, 7), _extent(0, offset, offset + 1)]
            changes.append(TransactionEnded(offset + 1, offset % 2 == 0, 1))
        apply(*changes)
        assert plane.find_bounds(TOPIC, 0).last_stable == 0
    assert sorted(_joined(path)) == [oldest, newest]
    _, steps = _cost(plane._reader, lambda: plane.find_bounds(TOPIC, 0))
    assert steps < 200
    apply(TransactionEnded(oldest, True, 1))
    assert plane.find_bounds(TOPIC, 0).last_stable == TRANSACTIONS + 1
    apply(TransactionBegun(newest + 1, 7), _extent(0, TRANSACTIONS + 1, newest + 1))
    assert _joined(path) == [newest + 1]


def test_a_join_drops_a_bounded_number(apply: Apply, path: Path) -> None:
    """A thousand transactions that were open together are not paid for by the first that comes after them."""
    many = 10 * DROPPED_PER_JOIN_MAX
    apply(
        *(TransactionBegun(n, n) for n in range(1, many + 1)),
        *(_extent(0, n - 1, n) for n in range(1, many + 1)),
    )
    apply(*(TransactionEnded(n, True, 1) for n in range(1, many + 1)))
    assert len(_joined(path)) == many
    offset, left = many, many
    while left > 1:
        apply(
            TransactionBegun(offset + 1, 7),
            _extent(0, offset, offset + 1),
            TransactionEnded(offset + 1, True, 1),
        )
        offset, before, left = offset + 1, left, len(_joined(path))
        assert left == max(before + 1 - DROPPED_PER_JOIN_MAX, 1)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_costs_the_same_for_any_number_of_partitions_and_extents(
    plane: SqliteControlPlane, apply: Apply, commit: bool
) -> None:
    """One row decides; neither partitions nor extents are looked at."""
    apply(TransactionBegun(1, 7), _extent(0, 0, 1), GroupOffsetStaged(1, "g", TOPIC, 0, 1, -1, None))
    apply(TransactionBegun(2, 8), GroupOffsetStaged(2, "g", TOPIC, 1, 1, -1, None))
    for offset in range(1, 11):
        apply(
            *(
                _extent(partition, offset if partition == 0 else offset - 1, 2)
                for partition in range(PARTITIONS)
            )
        )
    small = _cost(plane._writer, lambda: apply(TransactionEnded(1, commit, 1)))
    large = _cost(plane._writer, lambda: apply(TransactionEnded(2, commit, 1)))
    assert large[0] == small[0]
    assert abs(large[1] - small[1]) < 10, "the extents alone are 2,000"
    assert plane.find_bounds(TOPIC, PARTITIONS - 1).last_stable == 10


def test_a_deleted_topic_leaves_no_row(plane: SqliteControlPlane, apply: Apply, path: Path) -> None:
    """Of what was open in it, or staged for it; nobody would come to take it away."""
    other = UUID(int=2)
    apply(
        TopicCreated("bills", other, [[1]], {}),
        TransactionBegun(1, 7),
        TransactionBegun(2, 8),
        _extent(0, 0, 1),
        ExtentAppended(other, 0, 0, 0, [1], 100, 5, 0, 2),
        *(GroupOffsetStaged(1, "g", topic_id, 0, 1, -1, None) for topic_id in (TOPIC, other)),
    )
    apply(TopicDeleted(TOPIC))
    assert _joined(path) == [2]
    (left,) = plane._writer.execute("SELECT count(*) FROM staged_offsets").fetchone()
    assert left == 1


def test_all_of_it_outlives_the_process(plane: SqliteControlPlane, apply: Apply, path: Path) -> None:
    """Open, committed and aborted instances, ids, and staged positions; the next commit builds on them."""
    for instance, commit in ((1, True), (2, False), (3, None)):
        apply(
            TransactionBegun(instance, 7),
            _extent(0, instance - 1, instance),
            GroupOffsetStaged(instance, "g", TOPIC, instance, instance, -1, None),
            *([] if commit is None else [TransactionEnded(instance, commit, 1)]),
        )
    apply(TransactionalIdSet("t", 0, -1, 7, 3, 60_000, "Ongoing", 3, 9, 6, 2, 77))
    plane.close()
    with closing(SqliteControlPlane(path)) as later:
        said = answers(later)
        assert later.find_bounds(TOPIC, 0).last_stable == 2
        assert [position.offset for position in later.find_group_offsets("g")] == [1]
        assert later.find_staged("g") == {(TOPIC, 3)}
        assert later.find_next_instance() == 4
        state = later.find_transactional_id("t")
        assert state is not None
        assert (state.epoch, state.instance, state.turn, state.previous) == (3, 3, 9, (6, 2))
    with closing(SqliteControlPlane(path)) as latest:
        assert answers(latest) == said
        Apply(latest, first=6)(TransactionEnded(3, True, 1))
        assert latest.find_bounds(TOPIC, 0).last_stable == 3
        assert [position.offset for position in latest.find_group_offsets("g")] == [1, 3]
