"""What only the SQLite control plane has: a file that outlives its process, may fail, and is read by key."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.control import sqlite_trim
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import CommitRefused, DataDirectoryRefused, StoreFailed
from holdfast.store.footer import (
    ExtentAppended,
    GroupMember,
    GroupOffsetCommitted,
    GroupProtocol,
    GroupSaved,
    LeaderMoved,
    ProducerAdvanced,
    ProducerIdsAllotted,
    TopicCreated,
    TopicDeleted,
)
from holdfast.store.replica_changes import StoreLeft
from tests.control.frames import Apply, stored

TOPIC, OTHER = UUID(int=1), UUID(int=2)
EXTENT = ExtentAppended(TOPIC, 0, 0, 4, [1], 100, 5, 0)
MEMBER = GroupMember("m", "i", "c", "/127.0.0.1", 10, 20, (GroupProtocol("range", b"\0\xff"),), b"all")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file lies."""
    return tmp_path / "control.db"


@pytest.fixture
def plane(path: Path) -> Iterator[SqliteControlPlane]:
    """A control plane with one topic, made by frame 1."""
    plane = SqliteControlPlane(path)
    plane.add_store(1)
    plane.add_store(2)
    plane.apply(stored(1, 1, 2), [TopicCreated("orders", TOPIC, [[1, 2], [2, 1]], {"retention.ms": "1"})])
    yield plane
    plane.close()


def _rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return found


def test_all_of_it_outlives_the_process(plane: SqliteControlPlane, path: Path) -> None:
    """A process that comes later gives the same answers, and knows which frames it has."""
    plane.apply(
        stored(2),
        [
            EXTENT,
            ProducerAdvanced(TOPIC, 0, 9, 1, 0, 4, 0, 4, 77),
            ProducerIdsAllotted(1001),
            GroupOffsetCommitted("g", TOPIC, 1, 5, 0, "first", 1),
            GroupSaved("g", 2, "consumer", "range", "m", (MEMBER,), 5),
            LeaderMoved(TOPIC, 0, 2, 1),
            StoreLeft(2),
        ],
    )

    def answers(plane: SqliteControlPlane) -> list[object]:
        return [
            plane.find_applied(),
            [plane.find_checkpoint(store) for store in (1, 2)],
            plane.find_in_sync(),
            plane.list_topics(),
            plane.find_extents(TOPIC, 0, 0, 1000),
            plane.find_epoch_end(TOPIC, 0, 0),
            plane.find_producers(TOPIC, 0),
            plane.find_next_producer_id(),
            plane.find_group_offsets("g"),
            plane.find_group("g"),
        ]

    with closing(SqliteControlPlane(path)) as later:
        assert answers(later) == answers(plane)
        later.add_store(2)
        assert later.find_in_sync() == {1}
        later.apply(stored(2), [EXTENT])
        later.apply(stored(3), [TopicDeleted(TOPIC)])
    with closing(SqliteControlPlane(path)) as latest:
        assert latest.list_topics() == []
        assert latest.trim(100) == 1 + 1 + 3 + 1


def test_losing_a_store_is_synced(plane: SqliteControlPlane) -> None:
    """A power cut must not make a store with a gap look whole: this one change waits for the disk."""
    statements: list[str] = []
    plane._writer.set_trace_callback(statements.append)
    losses = [partial(plane.apply, stored(2), [EXTENT], lost=[2]), partial(plane.drop_stores, [1])]
    for lose in losses:
        statements.clear()
        lose()
        full = statements.index("PRAGMA synchronous = FULL")
        assert statements[full + 1] == "BEGIN IMMEDIATE"
        assert statements[-2:] == ["COMMIT", "PRAGMA synchronous = NORMAL"]
        assert any(
            sql.startswith("UPDATE stores SET incarnation = 1, lease = 0, phase = 1") for sql in statements
        )
    assert plane._writer.execute("PRAGMA synchronous").fetchone() == (1,)


def test_a_failing_file_is_a_store_failure(plane: SqliteControlPlane, path: Path) -> None:
    """Nothing is half recorded, and the next try may succeed."""
    blocker = sqlite3.connect(path, isolation_level=None)
    plane._writer.execute("PRAGMA busy_timeout = 1")
    blocker.execute("BEGIN IMMEDIATE")
    other = TopicCreated("other", OTHER, [[1]], {})
    with pytest.raises(StoreFailed, match="frame 2"):
        plane.apply(stored(2), [other])
    with pytest.raises(StoreFailed, match="trimmed"):
        plane.trim(10)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert [topic.name for topic in plane.list_topics()] == ["orders"]
    plane.apply(stored(2), [other])
    assert [topic.name for topic in plane.list_topics()] == ["orders", "other"]


def test_what_the_schema_refuses_is_refused_for_good(plane: SqliteControlPlane) -> None:
    """A frame that can never be recorded must not close the log to those after it."""
    empty = ExtentAppended(TOPIC, 0, 5, 4, [1], 0, -1, 0)
    with pytest.raises(CommitRefused, match="rule of the schema"):
        plane.apply(stored(2), [EXTENT, empty])
    assert plane.find_applied() == 2
    plane.apply(stored(3), [EXTENT])
    assert plane.find_bounds(TOPIC, 0).end == 5


def test_a_newer_schema_is_refused(plane: SqliteControlPlane, path: Path) -> None:
    """An older Holdfast does not touch what it does not understand."""
    plane.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DataDirectoryRefused, match="newer Holdfast"):
        SqliteControlPlane(path)


def test_a_damaged_file_is_refused_with_what_to_do(path: Path) -> None:
    """The journals hold all of it."""
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(DataDirectoryRefused, match="remove it"):
        SqliteControlPlane(path)


def test_trimming_leaves_no_row_of_a_deleted_topic(plane: SqliteControlPlane, path: Path) -> None:
    """In any table; those of a topic made meanwhile stay."""
    apply = Apply(plane, first=2)
    apply(
        EXTENT,
        *(ProducerAdvanced(TOPIC, 0, producer, 0, 0, 9, 90, 99, -1) for producer in (7, 8)),
        GroupOffsetCommitted("g", TOPIC, 0, 5, -1, "", 1),
    )
    apply(TopicDeleted(TOPIC))
    apply(TopicCreated("orders", OTHER, [[1]], {}), ExtentAppended(OTHER, 0, 0, 4, [1], 50, 1, 0))
    tables = ("extents", "producers", "leader_epochs", "group_offsets", "deleted_topics")
    assert [_rows(path, table) for table in tables] == [2, 2, 3, 1, 1]
    while plane.trim(2):
        pass
    assert [_rows(path, table) for table in tables] == [1, 0, 1, 0, 0]


def test_trimming_looks_at_no_live_extent(plane: SqliteControlPlane, path: Path) -> None:
    """Its cost does not grow with the log: every table is searched by key."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in (
            sqlite_trim.TRIM_EXPIRED,
            *sqlite_trim.TRIM_SPANS,
            *sqlite_trim.TRIM_DELETED[:3],
        ):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1,))]
            scanned = [step for step in plan if step.startswith("SCAN")]
            assert all("partitions" in step or "deleted_topics" in step for step in scanned), plan
