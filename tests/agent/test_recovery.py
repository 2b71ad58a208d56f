"""Stores that come and leave while frames are written: a replay follows them, and loses neither frames nor stores."""

import os
from pathlib import Path
from random import Random

import pytest

from holdfast.agent.data_directory import DataDirectory
from holdfast.agent.rebuild import rebuild
from holdfast.agent.recovery import Recovery
from holdfast.control.replicas import StorePhase
from holdfast.errors import StoreFailed
from holdfast.records.batch import validate
from holdfast.store import footer
from holdfast.store.footer import ProducerIdsAllotted, TopicCreated
from holdfast.store.identity import StoreIdentity, wipe
from holdfast.store.replica_changes import ReplicasAssigned, StoreFenced, StoreJoining
from tests.agent.history import History, lose_control_plane, rows, snapshots
from tests.control.answers import IDS

SEED = 20_260_307
TOPIC = IDS[0]
ALL = [1, 2, 3]


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Three stores with a topic and some frames."""
    history = History(tmp_path / "data", nodes=3)
    history.commit([TopicCreated("t", TOPIC, [ALL], {})])
    history.append(TOPIC, 5)
    return history


def _recover(data: Path) -> list[int]:
    return rebuild(data, store=None, on_frame=lambda number: None).in_sync


def _check_all_ways(history: History, in_sync: list[int], *, ways: int = 3) -> None:
    """From the newest snapshot, from the one before, and from frame 1, the control plane is what it was."""
    history.close()
    recorded = rows(history.data)
    for _ in range(ways):
        lose_control_plane(history.data)
        assert _recover(history.data) == in_sync
        assert rows(history.data) == recorded
        found = snapshots(history.data)
        for path in found:
            if path.name == found[0].name:
                path.unlink()


@pytest.mark.parametrize("at", ["in sync", "away", "joining"])
def test_a_store_that_came_back_is_followed(history: History, at: str) -> None:
    """It left, came back and joined; the snapshot is from before, from in between, or there is none."""
    if at == "in sync":
        history.snapshot()
    history.lose(TOPIC, 3)
    history.append(TOPIC, 3)
    if at == "away":
        history.snapshot()
    history.come_back(3)
    history.append(TOPIC, 3)
    if at == "joining":
        history.snapshot()
    history.join(TOPIC, 3)
    history.append(TOPIC, 3)
    _check_all_ways(history, ALL)


def test_a_store_that_is_joining_stays_so(history: History) -> None:
    """Nothing has to be copied a second time."""
    history.lose(TOPIC, 3)
    history.snapshot()
    history.come_back(3)
    history.append(TOPIC, 3)
    assert history.phase(3) is StorePhase.JOINING
    _check_all_ways(history, [1, 2])


@pytest.mark.parametrize("joins", [False, True])
def test_a_store_in_its_next_life_is_followed(history: History, joins: bool) -> None:
    """Its directory holds nothing of the life before, which the first frames speak of."""
    history.snapshot([1])
    history.lose(TOPIC, 2)
    history.append(TOPIC, 3)
    history.rebuild(2)
    history.append(TOPIC, 3)
    if joins:
        history.join(TOPIC, 2)
        history.append(TOPIC, 2)
    _check_all_ways(history, ALL if joins else [1, 3])


def test_those_who_came_late_are_enough(history: History) -> None:
    """Of the stores that the snapshot knows to be in sync none is left: the last frames are on the others alone."""
    history.lose(TOPIC, 2)
    history.lose(TOPIC, 3)
    history.snapshot()
    for store in (2, 3):
        history.come_back(store)
        history.join(TOPIC, store)
    history.lose(TOPIC, 1)
    history.append(TOPIC, 4)
    _check_all_ways(history, [2, 3])


def test_a_fenced_store_is_followed_no_longer(history: History) -> None:
    """It is given nothing, and what it has does not matter."""
    history.snapshot([1])
    history.commit([StoreFenced(3)])
    history.append(TOPIC, 3)
    left = {path: path.read_bytes() for path in history.data.glob("stores/3/journal/*")}
    _check_all_ways(history, [1, 2])
    assert {path: path.read_bytes() for path in history.data.glob("stores/3/journal/*")} == left


def test_a_restart_keeps_a_store_joining_that_has_no_frame_yet(history: History) -> None:
    """Its last frame is an old one, with a gap before the next; it is given the one that it lacks."""
    history.lose(TOPIC, 3)
    history.append(TOPIC, 3)
    history.come_back(3)
    number = history.plane.find_applied() + 1
    for store in (1, 2):
        history.stores[store].append(number, [], footer.encode([ProducerIdsAllotted(70)]))
    history.close()
    again = History(history.data, nodes=3)
    assert Recovery(again.plane, again.stores).run() == 1
    assert again.phase(3) is StorePhase.JOINING
    checkpoint = again.plane.find_checkpoint(3)
    assert checkpoint is not None
    assert (checkpoint.frame, checkpoint.end.journal) == (number, number)
    again.close()


def test_frames_that_the_control_plane_lost_are_found_on_a_joining_store_too(history: History) -> None:
    """A power cut takes SQLite's last commits: the store has frames beyond them, behind its gap."""
    history.lose(TOPIC, 3)
    history.append(TOPIC, 3)
    history.come_back(3)
    history = history.reopen()
    stale = (history.data / "control.db").read_bytes()
    history.append(TOPIC, 4)
    history.close()
    recorded = rows(history.data)
    (history.data / "control.db").write_bytes(stale)
    again = History(history.data, nodes=3)
    assert Recovery(again.plane, again.stores).run() == 4
    assert again.phase(3) is StorePhase.JOINING
    again.close()
    assert rows(history.data) == recorded


def test_a_frame_that_only_a_joining_store_took_never_was(history: History) -> None:
    """Those in sync failed to take it, and nobody was told of it: it must not cost them their place."""
    history.lose(TOPIC, 3)
    history.come_back(3)
    history.append(TOPIC, 2)
    number = history.plane.find_applied() + 1
    history.stores[3].append(number, [], footer.encode([ProducerIdsAllotted(70)]))
    assert Recovery(history.plane, history.stores).run() == 0
    assert history.plane.find_in_sync() == {1, 2}
    assert history.phase(3) is StorePhase.LOST
    assert history.plane.find_applied() == number - 1
    history.close()


def test_what_stores_in_sync_have_lost_is_taken_from_one_that_is_joining(history: History) -> None:
    """It has a frame after it, so they had it, and somebody was told; of the last one nobody can know."""
    history.lose(TOPIC, 3)
    history.come_back(3)
    history = history.reopen()
    stale = (history.data / "control.db").read_bytes()
    checkpoints = {store: history.plane.find_checkpoint(store) for store in (1, 2)}
    end = history.plane.find_bounds(TOPIC, 0).end
    history.append(TOPIC, 2)
    for store, checkpoint in checkpoints.items():
        history.stores[store].truncate_to(checkpoint)
    history.close()
    (history.data / "control.db").write_bytes(stale)
    again = History(history.data, nodes=3)
    assert Recovery(again.plane, again.stores).run() == 1
    assert again.plane.find_in_sync() == {1, 2}
    bounds, (extent,) = again.plane.find_extents(TOPIC, 0, end, 1)
    assert (extent.first, bounds.end) == (end, end + 1)
    for store in (1, 2):
        data = again.stores[store].read(extent.places[store], extent.length_bytes)
        assert validate(data).base_offset == end
    again.close()


def test_a_directory_of_another_life_is_not_followed(history: History) -> None:
    """An old copy was put back: what is said of the next life is not written into it."""
    history.lose(TOPIC, 2)
    copy = history.data.with_name("copy")
    (history.data / "stores" / "2").rename(copy)
    history.rebuild(2)
    history.append(TOPIC, 2)
    history.join(TOPIC, 2)
    history.close()
    old = history.data / "stores" / "2"
    old.rename(history.data.with_name("new"))
    copy.rename(old)
    left = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    lose_control_plane(history.data)
    assert _recover(history.data) == [1, 3]
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == left


def test_a_wiped_directory_does_not_stand_for_the_life_before(history: History) -> None:
    """It was emptied and nothing says so yet: it has lost what it was said to have."""
    history.append(TOPIC, 2)
    history.close()
    directory = history.data / "stores" / "2"
    cluster_id = history.stores[1]._identity.cluster_id
    wipe(directory, StoreIdentity(cluster_id=cluster_id, store=2, incarnation=2))
    lose_control_plane(history.data)
    assert _recover(history.data) == [1, 3]
    assert not list((directory / "journal").iterdir())


def test_a_store_that_no_frame_announced_is_known_all_the_same(tmp_path: Path) -> None:
    """It was added before frames said so, and after the snapshot: what they say of it is not refused this time."""
    history = History(tmp_path / "data", nodes=2)
    history.commit([TopicCreated("t", TOPIC, [[1, 2]], {})])
    history.snapshot()
    history.append(TOPIC, 1)
    history.close()
    directory = DataDirectory(history.data)
    directory.add_node()
    directory.close()
    history = History(history.data, nodes=3)
    history.commit([ReplicasAssigned(TOPIC, 0, (1, 2, 3))])
    history.append(TOPIC, 2)
    history.close()
    lose_control_plane(history.data)
    assert _recover(history.data) == [1, 2]
    again = History(history.data, nodes=3)
    assert again.plane.find_partition(TOPIC, 0).replicas == (1, 2, 3)
    assert again.phase(3) is StorePhase.LOST, "nobody can tell that it lacks nothing"
    again.close()


def test_one_store_that_is_not_in_sync_is_not_believed(history: History) -> None:
    """Alone it lacks what the others have: a log without those would be another log."""
    history.lose(TOPIC, 3)
    history.append(TOPIC, 2)
    history.come_back(3)
    history.snapshot()
    history.append(TOPIC, 2)
    history.close()
    recorded = rows(history.data)
    with pytest.raises(StoreFailed, match="is on no store in sync"):
        rebuild(history.data, store=3, on_frame=lambda number: None)
    assert rows(history.data) == recorded


def test_a_join_that_was_refused_brings_nobody(history: History) -> None:
    """It is in the wrong life: the store stays away, and is not written to."""
    history.lose(TOPIC, 3)
    history.commit([StoreJoining(3, 7)])
    history.append(TOPIC, 2)
    assert history.phase(3) is StorePhase.AWAY
    _check_all_ways(history, [1, 2])


@pytest.mark.parametrize("seed", range(SEED, SEED + 8))
def test_stores_come_and_leave_at_random(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has happened, each snapshot and the frames after it say the same of it."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)
    chance = Random(seed)
    history = History(tmp_path / "data", nodes=3)
    history.commit([TopicCreated("t", TOPIC, [ALL], {})])
    # With a store that is emptied, frames go that the older snapshot may need: then only the newest is sure to do.
    returns = chance.choice([[history.come_back], [history.come_back, history.rebuild]])
    for _ in range(25):
        history.append(TOPIC, chance.randrange(1, 4))
        store = chance.choice(ALL)
        phase, others = history.phase(store), history.plane.find_in_sync() - {store}
        if phase in (StorePhase.IN_SYNC, StorePhase.JOINING) and others and chance.random() < 0.4:
            history.lose(TOPIC, store)
        elif phase is StorePhase.JOINING:
            history.join(TOPIC, store)
        elif phase is StorePhase.AWAY:
            chance.choice(returns)(store)
        if chance.random() < 0.2:
            history.snapshot()
    ways = 2 if len(returns) == 1 and len({path.name for path in snapshots(history.data)}) > 1 else 1
    _check_all_ways(history, sorted(history.plane.find_in_sync()), ways=ways)
