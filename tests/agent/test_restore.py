"""A lost control plane comes back from a snapshot and the journals after it, with everything that it knew."""

import json
import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.rebuild import Rebuilt, rebuild
from holdfast.agent.restore import restore
from holdfast.errors import StoreFailed
from holdfast.store.footer import Change, ExtentAppended, ProducerIdsAllotted, TopicCreated
from holdfast.store.journals import list_journals
from holdfast.store.replica_changes import StoreLeft
from tests.agent.history import History, lose_control_plane, rows, snapshots
from tests.control.answers import IDS
from tests.control.drafts import DRAFT, Draft, plan

WIDE: list[list[int]] = [[1, 2, 3]]


def _recover(data: Path, store: int | None = None) -> Rebuilt:
    return rebuild(data, store=store, on_frame=lambda number: None)


def _changes(history: History, drafts: list[Draft]) -> list[Change]:
    """Those that a server could have planned; the last store in sync does not leave."""
    planned = plan(history.plane, drafts)
    leaving = {change.store for change in planned if isinstance(change, StoreLeft)}
    may_leave = bool(history.plane.find_in_sync() - leaving)
    return [
        change
        for change in planned
        if not (isinstance(change, ExtentAppended) and change.first < 0)
        and (may_leave or not isinstance(change, StoreLeft))
    ]


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Three stores with a topic."""
    history = History(tmp_path / "data", nodes=3)
    history.commit([TopicCreated("t", IDS[0], WIDE, {})])
    return history


def _append(history: History, count: int) -> None:
    history.append(IDS[0], count)


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        ("none", {"newest", "nothing"}),
        ("newest on one store", {"newest"}),
        ("newest on all stores", {"older", "nothing"}),
    ],
)
def test_everything_comes_back(damage: str, seen: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Random frames, snapshots and journals that go: every table is what it was, whatever it is begun with."""
    begun: Counter[str] = Counter()
    # Nobody pulls the plug here, and there are thousands of them.
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)

    @settings(max_examples=8)
    @given(
        frames=st.lists(
            st.tuples(st.lists(DRAFT, min_size=1, max_size=4), st.sampled_from([False, False, True])),
            min_size=10,
            max_size=30,
        )
    )
    def run(frames: list[tuple[list[Draft], bool]]) -> None:
        with TemporaryDirectory() as folder:
            history = History(Path(folder), nodes=3)
            history.commit([TopicCreated("a", IDS[0], [[1, 2]], {}), TopicCreated("b", IDS[1], [[2]], {})])
            for drafts, has_snapshot in frames:
                history.commit(_changes(history, drafts))
                if has_snapshot:
                    history.snapshot()
            history.close()
            recorded = rows(history.data)
            lose_control_plane(history.data)
            newest = [
                path for path in snapshots(history.data) if path.name == snapshots(history.data)[0].name
            ]
            if damage.startswith("newest"):
                for path in newest[:1] if damage == "newest on one store" else newest:
                    _damage(path)
            told = _recover(history.data)
            assert rows(history.data) == recorded
            if told.snapshot is None:
                begun["nothing"] += 1
            else:
                begun["newest" if told.snapshot == int(newest[0].stem) else "older"] += 1

    run()
    assert {kind for kind, times in begun.items() if times} >= seen, begun
    assert begun["newest" if "older" in seen else "older"] == 0 or damage == "newest on one store"


def test_old_journals_are_not_needed(history: History) -> None:
    """They are gone, and so is the control plane: the snapshots know what they said."""
    _append(history, 20)
    history.snapshot()
    _append(history, 20)
    history.snapshot()
    _append(history, 20)
    history.close()
    assert all(list_journals(history.data / "stores" / str(n))[0] > 1 for n in (1, 2, 3))
    recorded = rows(history.data)
    lose_control_plane(history.data)
    told = _recover(history.data)
    assert (told.snapshot, told.frames, told.in_sync, told.records_end) == (41, 20, [1, 2, 3], 60)
    assert rows(history.data) == recorded


def test_up_does_the_same(history: History) -> None:
    """When control.db is missing, and never when it is there."""
    _append(history, 5)
    history.snapshot()
    _append(history, 5)
    history.close()
    recorded = rows(history.data)
    directory = DataDirectory(history.data)
    restore(directory)
    assert rows(history.data) == recorded
    lose_control_plane(history.data)
    restore(directory)
    assert rows(history.data)["applied"] == [(1, 6)]
    assert not list(history.data.glob("control.db.*"))
    directory.close()


def test_a_new_directory_needs_no_snapshot(tmp_path: Path) -> None:
    """Nor does one that lost its control plane before the first."""
    directory = DataDirectory(tmp_path, nodes=2)
    restore(directory)
    assert not directory.control_db.exists()
    directory.close()


def test_what_is_left_of_the_lost_one_is_not_read(history: History) -> None:
    """Its write-ahead log is that of another file, of an earlier time: SQLite would put old pages over new ones."""
    _append(history, 10)
    history = history.reopen()
    _append(history, 1)
    stale = (history.data / "control.db-wal").read_bytes()
    _append(history, 60)
    history.snapshot()
    history.close()
    recorded = rows(history.data)
    lose_control_plane(history.data)
    (history.data / "control.db-wal").write_bytes(stale)
    assert _recover(history.data).snapshot == 72
    assert rows(history.data) == recorded


def test_one_store_brings_its_own_snapshot(history: History) -> None:
    """Believing one store alone, the others' newer snapshots do not count."""
    _append(history, 5)
    history.snapshot([2])
    _append(history, 5)
    history.snapshot([1, 3])
    history.close()
    lose_control_plane(history.data)
    told = _recover(history.data, store=2)
    assert (told.snapshot, told.frames, told.in_sync, told.records_end) == (6, 5, [2], 10)


def test_without_a_way_back_nothing_is_touched(history: History) -> None:
    """All snapshots are damaged and frame 1 is gone: it says what is missing, and the next try finds all as it was."""
    _append(history, 20)
    history.snapshot()
    _append(history, 20)
    history.snapshot()
    _append(history, 1)
    history.close()
    recorded = rows(history.data)
    contents = {path: path.read_bytes() for path in snapshots(history.data)}
    for path in contents:
        _damage(path)
    with pytest.raises(StoreFailed, match=r"00041\.db is damaged.*frames 1 to \d+ are in no journal"):
        _recover(history.data)
    assert rows(history.data) == recorded, "the control plane that was there is still there"
    lose_control_plane(history.data)
    directory = DataDirectory(history.data)
    with pytest.raises(StoreFailed, match="Put a snapshot back"):
        restore(directory)
    directory.close()
    assert not list(history.data.glob("control.db*"))
    path = snapshots(history.data)[-1]
    path.write_bytes(contents[path])
    assert _recover(history.data).snapshot == 21
    assert rows(history.data) == recorded


def test_missing_snapshots_are_told(history: History) -> None:
    """Somebody deleted them."""
    _append(history, 20)
    history.snapshot()
    _append(history, 20)
    history.snapshot()
    history.close()
    for path in snapshots(history.data):
        path.unlink()
    with pytest.raises(StoreFailed, match="there is no snapshot of it, and frames 1 to"):
        _recover(history.data)


def test_a_failed_recover_puts_the_control_plane_back(history: History) -> None:
    """The journals are damaged where nobody had looked: what was there before is there again."""
    _append(history, 9)
    history.close()
    recorded = rows(history.data)
    for journal in history.data.glob("stores/*/journal/*"):
        _damage(journal)
    with pytest.raises(StoreFailed, match="damaged in the middle"):
        _recover(history.data)
    assert rows(history.data) == recorded
    assert not list(history.data.glob("control.db.*"))


@pytest.mark.parametrize("how", ["renamed", "no database", "another table"])
def test_a_snapshot_without_a_seal_is_looked_at(history: History, how: str) -> None:
    """It was put back by hand: it has to be a control plane, of the frame that it says."""
    _append(history, 5)
    history.snapshot([1])
    _append(history, 5)
    history.snapshot([1])
    history.close()
    recorded = rows(history.data)
    newest, older = snapshots(history.data)
    for path in (newest, older):
        path.with_suffix(".json").unlink()
    if how == "renamed":
        newest.write_bytes(older.read_bytes())
    else:
        newest.write_bytes(b"SQLite format 3\0" + bytes(5000) if how == "another table" else b"noise" * 999)
    assert _recover(history.data).snapshot == 6
    assert rows(history.data) == recorded


@pytest.mark.parametrize("other", [{"cluster_id": str(uuid4())}, {"store": 2}, {"wiping": True}])
def test_the_snapshot_of_a_stranger_is_passed_over(history: History, other: dict[str, object]) -> None:
    """The directory of another cluster or store in the place of this one's, or one that is being emptied."""
    _append(history, 5)
    history.snapshot([1, 2])
    _append(history, 5)
    history.snapshot([3])
    history.close()
    stranger = history.data / "stores" / "3" / "store.json"
    stranger.write_text(json.dumps(json.loads(stranger.read_text()) | other))
    lose_control_plane(history.data)
    directory = DataDirectory(history.data)
    restore(directory)
    assert rows(history.data)["applied"] == [(1, 6)]
    directory.close()


def test_a_store_that_left_is_still_away(history: History) -> None:
    """The snapshot knows it, or a frame after it says so."""
    _append(history, 5)
    history.commit([StoreLeft(3)])
    _append(history, 5)
    history.snapshot()
    _append(history, 5)
    history.commit([StoreLeft(2)])
    _append(history, 5)
    history.close()
    recorded = rows(history.data)
    lose_control_plane(history.data)
    assert _recover(history.data).in_sync == [1]
    assert rows(history.data) == recorded
    left = {path: path.read_bytes() for path in history.data.glob("stores/[23]/journal/*")}
    lose_control_plane(history.data)
    for path in snapshots(history.data):
        path.unlink()
    assert _recover(history.data).in_sync == [1]
    assert rows(history.data) == recorded
    assert {path: path.read_bytes() for path in history.data.glob("stores/[23]/journal/*")} == left


def test_a_store_that_lacks_frames_in_the_middle_leaves(history: History) -> None:
    """Its journal in between is gone: the others go on, whether the replay meets the gap early or late."""
    _append(history, 40)
    history.close()
    journals = list_journals(history.data / "stores" / "2")
    (history.data / "stores/2/journal" / f"{journals[1]:020d}.journal").unlink()
    left = {path: path.read_bytes() for path in history.data.glob("stores/2/journal/*")}
    lose_control_plane(history.data)
    told = _recover(history.data)
    assert (told.in_sync, told.records_end) == ([1, 3], 40)
    assert {path: path.read_bytes() for path in history.data.glob("stores/2/journal/*")} == left


def test_a_store_that_lacks_the_frames_after_the_snapshot_leaves(history: History) -> None:
    """They are gone from it, later ones are there: it has a gap all the same."""
    _append(history, 9)
    # A journal ends here, so that all that follows can go.
    for store in history.stores.values():
        store.begin_anew()
    history.snapshot()
    snapshot = history.plane.find_applied()
    _append(history, 40)
    history.close()
    folder = history.data / "stores" / "2" / "journal"
    (folder / f"{snapshot + 1:020d}.journal").unlink()
    lose_control_plane(history.data)
    told = _recover(history.data)
    assert (told.snapshot, told.in_sync, told.records_end) == (snapshot, [1, 3], 49)


def test_the_last_frame_is_given_to_who_lacks_it_after_a_snapshot(history: History) -> None:
    """As without one: nobody was told of it, so it may stay, and then all have it."""
    _append(history, 5)
    history.snapshot()
    _append(history, 1)
    checkpoint = history.plane.find_checkpoint(2)
    history.commit([ProducerIdsAllotted(700)])
    history.stores[2].truncate_to(checkpoint)
    history.close()
    lose_control_plane(history.data)
    told = _recover(history.data)
    assert (told.in_sync, told.frames) == ([1, 2, 3], 2)
    assert rows(history.data)["producer_ids"] == [(1, 700)]
    again = History(history.data, nodes=3)
    assert [frame.number for frame in again.stores[2].replay(checkpoint)] == [8]
    again.close()
