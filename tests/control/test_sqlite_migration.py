"""A control plane from before stores could come back: what it knows is carried over, as well as it can be known."""

import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.control.replicas import StorePhase
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.control.sqlite_log import PLACE
from holdfast.rules.removal import Cleaned
from holdfast.store.footer import TransactionBegun
from holdfast.store.replica_changes import HeldTo
from holdfast.store.store import CARRIED
from tests.control.answers import named_instances
from tests.control.frames import Apply, stored
from tests.control.manifests import carried, phases, published, segment, write_five_extents

TOPIC = UUID(int=1)
SCHEMA_BEFORE = 5


def _places(*stores: int) -> bytes:
    """Journal and position 1: their bytes contain those of the number of store 1."""
    return b"".join(PLACE.pack(store, 1, 1) for store in stores)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Store 2 missed the last two extents of partition 0, and had everything of partition 1."""
    path = tmp_path / "control.db"
    folder = resources.files("holdfast.control") / "migrations"
    scripts = sorted((file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql"))
    with closing(sqlite3.connect(path)) as connection:
        for _, script in scripts[:SCHEMA_BEFORE]:
            connection.executescript(script)
        connection.execute(f"PRAGMA user_version = {SCHEMA_BEFORE}")
        connection.execute("INSERT INTO applied VALUES (1, 40)")
        connection.execute("INSERT INTO stores VALUES (1, 1, 40, 1, 900), (2, 0, 38, 1, 700)")
        connection.execute("INSERT INTO topics VALUES (1, ?, 'orders', '{}')", (TOPIC.bytes,))
        connection.execute(
            "INSERT INTO partitions VALUES (1, 0, '[1,2]', 1, 0, 0, 40), (1, 1, '[2,1]', 1, 1, 0, 10)"
        )
        rows = [
            (0, 9, 0, _places(1, 2), 1),
            (0, 19, 10, _places(2, 1), 2),
            (0, 29, 20, _places(1), None),
            (0, 39, 30, _places(1), 4),
            (1, 9, 0, _places(1, 2), None),
        ]
        connection.executemany("INSERT INTO extents VALUES (1, ?, ?, ?, ?, 100, 5, 0, ?)", rows)
        connection.execute(
            "INSERT INTO instances VALUES (1, 7, 1), (2, 7, 2), (3, 7, 1), (4, 7, 0), (5, 7, 1)"
        )
        connection.execute("INSERT INTO joined_partitions VALUES (1, 0, 0, 1), (1, 0, 30, 4), (1, 1, 0, 5)")
        connection.commit()
    return path


def test_replicas_are_made_of_what_was_known(path: Path) -> None:
    """Nobody has settled anything; a store out of sync holds what lies below the first extent that it lacks."""
    with closing(SqliteControlPlane(path)) as plane:
        assert phases(plane) == {1: StorePhase.IN_SYNC, 2: StorePhase.LOST}, (
            "the next frame says that it left"
        )
        assert plane.find_in_sync() == {1}
        assert plane.list_behind(2) == [HeldTo(TOPIC, 0, 20)]
        assert [plane.find_held(TOPIC, number, 2) for number in (0, 1)] == [20, 10]
        assert [plane.find_held(TOPIC, number, 1) for number in (0, 1)] == [40, 10]
        removal = plane.find_removal(TOPIC, 0)
        assert [each.cleaned for each in removal.replicas] == [Cleaned(mcco=0, mxfo=0)] * 2
        assert (removal.lineage, removal.membership, removal.replicas[0].settled_to) == (1, 1, 0)
        checkpoint = plane.find_checkpoint(2)
        assert checkpoint is not None
        assert (checkpoint.frame, checkpoint.end.position) == (38, 700)
        assert {each.first_timestamp for each in plane.find_extents(TOPIC, 0, 0, 1000)[1]} == {-1}
        plane.apply(stored(41), [published(plane, 1, segment(0, 30), mxfo=30, topic_id=TOPIC)])
        assert plane.list_files(1) == {"0-30"}


def test_instances_that_nothing_names_are_gone_but_their_numbers_are_taken(path: Path) -> None:
    """Open ones stay, whether anything names them or not."""
    with closing(SqliteControlPlane(path)) as plane:
        assert named_instances(plane) == {1, 2, 4}
        assert plane.find_next_instance() == 6
        assert plane.find_bounds(TOPIC, 0).last_stable == 30
        plane.apply(stored(41), [TransactionBegun(6, 7)])
        assert plane._reader.execute("SELECT instance FROM joined_partitions").fetchall() == [(1,), (4,)]


def test_extents_that_were_carried_before_there_was_an_index_of_them_are_found(tmp_path: Path) -> None:
    """The index says which were, on whichever store."""
    path = tmp_path / "control.db"
    with closing(SqliteControlPlane(path)) as plane:
        for store in (1, 2):
            plane.add_store(store)
        apply = Apply(plane)
        write_five_extents(apply)
        apply(carried(plane, 2, 9, 19, number=3))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX extents_carried")
        connection.execute("ALTER TABLE extents DROP COLUMN is_carried")
        for later in ("adding", "removing"):
            connection.execute(f"ALTER TABLE partitions DROP COLUMN {later}")
        connection.execute("PRAGMA user_version = 7")
    with closing(SqliteControlPlane(path)) as plane:
        assert (plane.find_carried(1), plane.find_carried(2)) == (set(), {CARRIED + 3})
        rows = plane._reader.execute("SELECT last_offset FROM extents WHERE is_carried").fetchall()
        assert rows == [(9,), (19,)]
