"""Topics in the SQLite control plane: only what still fits is applied, and trimming takes nothing that is seen."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import CommitRefused, UnknownTopicOrPartition
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupOffsetCommitted,
    LogStartMoved,
    PartitionsAdded,
    ProducerAdvanced,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from holdfast.store.store import Place, StoredFrame

TOPIC, LATER = UUID(int=1), UUID(int=2)


class Applied:
    """A control plane and the frames that are applied to it."""

    def __init__(self, path: Path) -> None:
        self.plane = SqliteControlPlane(path)
        self._path = path
        self._numbers = count(1)
        self.plane.add_store(1)

    def apply(self, *changes: Change) -> None:
        number = next(self._numbers)
        place = Place(journal=1, position=100 * number)
        frame = StoredFrame(store=1, number=number, body=place, footer=b"", end=place)
        self.plane.apply([frame], changes)

    def rows(self, table: str) -> int:
        with closing(sqlite3.connect(self._path)) as connection:
            found: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return found


@pytest.fixture
def applied(tmp_path: Path) -> Iterator[Applied]:
    """One topic with ten extents of ten offsets, two producers and a position."""
    applied = Applied(tmp_path / "control.db")
    applied.apply(TopicCreated("t", TOPIC, [[1]], {}))
    for first in range(0, 100, 10):
        applied.apply(ExtentAppended(TOPIC, 0, first, first + 9, [1], 50, first, 0))
    applied.apply(
        *(ProducerAdvanced(TOPIC, 0, producer, 0, 0, 9, 90, 99, -1) for producer in (7, 8)),
        GroupOffsetCommitted("g", TOPIC, 0, 5, -1, "", 1),
    )
    yield applied
    applied.plane.close()


@pytest.mark.parametrize(
    "change",
    [
        TopicDeleted(LATER),
        TopicConfigured(LATER, {}),
        PartitionsAdded(LATER, 0, [[1]]),
        PartitionsAdded(TOPIC, 0, [[1]]),
        PartitionsAdded(TOPIC, 2, [[1]]),
        LogStartMoved(LATER, 0, 0),
        LogStartMoved(TOPIC, 1, 0),
        LogStartMoved(TOPIC, 0, 101),
    ],
)
def test_what_does_not_fit_is_refused_with_its_frame(applied: Applied, change: Change) -> None:
    """Nothing of the frame counts, a deletion before it included; the next one goes on."""
    with pytest.raises(CommitRefused):
        applied.apply(TopicConfigured(TOPIC, {"retention.ms": "1"}), change)
    with pytest.raises(CommitRefused):
        applied.apply(TopicDeleted(TOPIC), TopicDeleted(TOPIC))
    (topic,) = applied.plane.list_topics()
    assert (topic.topic_id, topic.configs) == (TOPIC, {})
    applied.apply(LogStartMoved(TOPIC, 0, 100))
    assert applied.plane.find_bounds(TOPIC, 0).start == 100


def test_log_start_never_moves_back(applied: Applied) -> None:
    """An earlier one is applied without effect."""
    applied.apply(LogStartMoved(TOPIC, 0, 35))
    applied.apply(LogStartMoved(TOPIC, 0, 20))
    assert applied.plane.find_bounds(TOPIC, 0).start == 35


def test_trimming_takes_what_lies_below_the_log_start_in_steps(applied: Applied) -> None:
    """Whole extents only, as many as a step may; what a reader finds is the same before and after."""
    applied.apply(LogStartMoved(TOPIC, 0, 35))
    before = applied.plane.find_extents(TOPIC, 0, 35, 1 << 30)
    assert before[1][0].first == 30
    assert applied.plane.find_size(TOPIC, 0) == 7 * 50
    assert [applied.plane.trim(2) for _ in range(3)] == [2, 1, 0]
    assert applied.rows("extents") == 7
    assert applied.plane.find_extents(TOPIC, 0, 35, 1 << 30) == before
    assert applied.plane.find_size(TOPIC, 0) == 7 * 50


def test_time_is_looked_for_from_an_offset_on(applied: Applied) -> None:
    """Extents below it are passed over, trimmed or not."""
    found = applied.plane.find_extent_by_time(TOPIC, 0, 35, 0)
    assert found is not None
    assert found.first == 30
    assert applied.plane.find_extent_of_max_time(TOPIC, 0, 100) is None


def test_deleted_topic_is_trimmed_to_the_last_row(applied: Applied) -> None:
    """Out of sight at once; its rows go in bounded steps, and those of a topic made meanwhile stay."""
    applied.apply(TopicDeleted(TOPIC))
    applied.apply(TopicCreated("t", LATER, [[1]], {}), ExtentAppended(LATER, 0, 0, 4, [1], 50, 1, 0))
    with pytest.raises(UnknownTopicOrPartition):
        applied.plane.find_bounds(TOPIC, 0)
    assert applied.plane.list_groups() == []
    assert applied.rows("extents") == 11
    steps = []
    while trimmed := applied.plane.trim(3):
        steps.append(trimmed)
    assert steps == [3, 3, 3, 3, 2]
    left = [applied.rows(table) for table in ("extents", "producers", "leader_epochs", "group_offsets")]
    assert left == [1, 0, 1, 0]
    assert applied.rows("deleted_topics") == 0
    assert applied.plane.find_bounds(LATER, 0).end == 5


def test_number_of_a_deleted_topic_is_not_given_again(applied: Applied) -> None:
    """Else the rows that linger would be the next topic's."""
    applied.apply(TopicDeleted(TOPIC))
    applied.apply(TopicCreated("t", LATER, [[1]], {}))
    assert applied.plane.find_producers(LATER, 0) == {}
    assert applied.plane.find_group_offsets("g") == []


def test_deleted_topic_takes_no_more_changes(applied: Applied) -> None:
    """Not even those that no partition is asked about; rows of it would stay for ever."""
    applied.apply(TopicDeleted(TOPIC))
    assert applied.plane.find_producers(TOPIC, 0) == {}
    for change in (
        GroupOffsetCommitted("g", TOPIC, 0, 5, -1, "", 1),
        ProducerAdvanced(TOPIC, 0, 9, 0, 0, 0, 100, 100, -1),
    ):
        with pytest.raises(CommitRefused):
            applied.apply(change)


def test_trimming_looks_at_no_live_extent(applied: Applied, tmp_path: Path) -> None:
    """Its cost does not grow with the log: every table is searched by key."""
    from holdfast.control import sqlite_topics

    with closing(sqlite3.connect(tmp_path / "control.db")) as connection:
        for statement in (sqlite_topics._TRIM_EXPIRED, *sqlite_topics._TRIM_DELETED[:3]):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1,))]
            scanned = [step for step in plan if step.startswith("SCAN")]
            assert all("partitions" in step or "deleted_topics" in step for step in scanned), plan
