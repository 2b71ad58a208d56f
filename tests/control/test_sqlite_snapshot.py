"""A snapshot of the SQLite control plane, and the frames after it, make the same tables again."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import StoreFailed
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupOffsetCommitted,
    TopicCreated,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.replica_changes import (
    KeeperLeased,
    StoreFenced,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from tests.control.answers import answers
from tests.control.frames import stored
from tests.control.manifests import TOPIC, carried, published, segment


def tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables, those aside that SQLite keeps for itself."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in names
        }


def test_a_snapshot_and_the_frames_after_it_are_the_whole(tmp_path: Path) -> None:
    """Table by table, wherever the snapshot was taken; and so are the frames alone, from the first on."""
    plane = SqliteControlPlane(tmp_path / "control.db")
    for store in (1, 2):
        plane.add_store(store)
    steps: list[list[Change]] = []
    snapshots: list[tuple[int, Path]] = []

    def apply(*changes: Change) -> None:
        steps.append(list(changes))
        plane.apply(stored(len(steps), 1, 2), changes)
        path = tmp_path / f"{len(steps)}.db"
        snapshots.append((plane.snapshot(path), path))

    apply(TopicCreated("orders", TOPIC, [[1, 2]], {"cleanup.policy": "compact"}))
    apply(
        TransactionBegun(1, 7), *(ExtentAppended(TOPIC, 0, at, at, [1, 2], 9, at, 0, 1) for at in range(300))
    )
    apply(TransactionEnded(1, True, 1), GroupOffsetCommitted("g", TOPIC, 0, 3, -1, None, 1))
    apply(KeeperLeased(1, 1), KeeperLeased(2, 1))
    apply(published(plane, 1, segment(0, 200), mcco=200, mxfo=200, at_ms=10))
    apply(published(plane, 2, segment(0, 150), mcco=100, mxfo=150, at_ms=20))
    apply(published(plane, 1, segment(0, 300, "anew"), removed=("0-200",), grant=(100, 150, 50), mxfo=300))
    apply(StoreFenced(2, 30))
    apply(StoreRebuilt(2, 2))
    apply(published(plane, 2, segment(0, 200), at_ms=40))
    apply(carried(plane, 2, *range(200, 300)))
    apply(StoreLeft(2, ()))
    apply(StoreJoining(2, 2))

    expected = answers(plane)
    plane.close()
    whole = tables(tmp_path / "control.db")
    assert {"segments", "replicas", "removals", "instances"} <= {name for name, rows in whole.items() if rows}
    assert [frame for frame, _ in snapshots] == list(range(1, len(steps) + 1))
    anew = SqliteControlPlane(tmp_path / "0.db")
    for store in (1, 2):
        anew.add_store(store)
    anew.close()
    for frame, path in [(0, tmp_path / "0.db"), *snapshots]:
        with closing(SqliteControlPlane(path)) as restored:
            assert restored.find_applied() == frame
            for number, changes in enumerate(steps, start=1):
                restored.apply(stored(number, 1, 2), changes)
            assert answers(restored) == expected
        assert tables(path) == whole, f"from frame {frame} on"


def test_a_snapshot_is_of_one_moment(tmp_path: Path) -> None:
    """What is applied while it is written is not in it, nor is what a reader left open."""
    with closing(SqliteControlPlane(tmp_path / "control.db")) as plane:
        plane.add_store(1)
        assert plane.snapshot(tmp_path / "empty.db") == 0
        plane.apply(stored(1), [TopicCreated("orders", TOPIC, [[1]], {})])
        assert plane.snapshot(tmp_path / "one.db") == 1
        plane.apply(stored(2), [ExtentAppended(TOPIC, 0, 0, 9, [1], 100, 5, 0)])
        with closing(SqliteControlPlane(tmp_path / "one.db")) as copy:
            assert copy.find_bounds(TOPIC, 0).end == 0
        assert plane.snapshot(tmp_path / "one.db") == 2, "a newer one takes its place"
        with closing(SqliteControlPlane(tmp_path / "one.db")) as copy:
            assert copy.find_bounds(TOPIC, 0).end == 10


def test_a_snapshot_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """What a writer left behind that died is no obstacle; a disk that fails is named, and leaves nothing."""
    with closing(SqliteControlPlane(tmp_path / "control.db")) as plane:
        (tmp_path / "one.tmp").write_bytes(b"half of one")
        assert plane.snapshot(tmp_path / "one.db") == 0
        assert sorted(path.name for path in tmp_path.glob("one.*")) == ["one.db"]
        with pytest.raises(StoreFailed, match="cannot be copied"):
            plane.snapshot(tmp_path / "nowhere" / "one.db")


def test_what_a_snapshot_contains_is_durable_where_it_was_copied_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journals go because of it: a power cut must not take the control plane back to where it needs them."""
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def watch(file: int) -> None:
        synced.append((Path(f"/proc/self/fd/{file}").readlink().name, (tmp_path / "one.tmp").exists()))
        fsync(file)

    with closing(SqliteControlPlane(tmp_path / "control.db")) as plane:
        plane.add_store(1)
        monkeypatch.setattr(os, "fsync", watch)
        plane.snapshot(tmp_path / "one.db")
    # After it was copied, and before it counts.
    assert synced[0] == ("control.db-wal", True)
