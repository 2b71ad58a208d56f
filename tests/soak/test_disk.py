"""Faults between a crash and the next start: they take what nobody was told about, and nothing else."""

from pathlib import Path
from random import Random

import pytest

from holdfast.agent.committer import Committer
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import AppendBatch, CreateTopic
from holdfast.store.footer import TopicCreated
from holdfast.store.local import LocalStore
from soak.disk import Disk, Fault, Garbage, LostPlane, StalePlane, TornTail, draw_faults
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import CLUSTER, FaultyPlane

KEY = PartitionKey(CLUSTER, 0)
NODES = 3


class Crashed:
    """A data directory whose last frame no control plane has recorded, for each start."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.disk = Disk(self.data, directory / "copies", nodes=NODES)
        self.life(create=True)

    def life(self, *, create: bool = False) -> int:
        """Start, commit two frames, and crash within the third: the log end that was acknowledged."""
        plane = FaultyPlane(self.data / "control.db") if self.data.exists() else self._first_plane()
        stores = [
            LocalStore(self.data / "stores" / str(n), store=n, cluster_id=CLUSTER)
            for n in range(1, NODES + 1)
        ]
        store_set = StoreSet(stores, append_seconds_max=30)
        committer = Committer(plane=plane, stores=store_set, now_ms=lambda: NOW_MS)
        committer.recover()
        if create:
            committer.commit([CreateTopic(TopicCreated("t", CLUSTER, [[1, 2, 3]], {}))])
        for _ in range(2):
            committer.commit([AppendBatch(KEY, view(batch(b"acknowledged")), 1)])
        end = plane.find_bounds(*KEY).end
        assert plane.find_in_sync() == {1, 2, 3}
        plane.fail_applies = 1
        committer.commit([AppendBatch(KEY, view(batch(b"in flight", bytes(500))), 1)])
        store_set.close()
        plane.close()
        self.disk.copy_control_plane()
        return end

    def _first_plane(self) -> FaultyPlane:
        self.data.mkdir(parents=True)
        return FaultyPlane(self.data / "control.db")


@pytest.fixture
def crashed(tmp_path: Path) -> Crashed:
    return Crashed(tmp_path)


def sizes(disk: Disk) -> list[int]:
    files = [disk.last_journal(store) for store in range(1, NODES + 1)]
    return [file.stat().st_size for file in files if file is not None]


def test_a_torn_tail_ends_within_what_was_not_recorded(crashed: Crashed) -> None:
    """On the stores that it names."""
    whole = sizes(crashed.disk)
    recorded = crashed.disk.recorded_end(1)[1]
    assert recorded < whole[0], "the crash left a frame that nobody recorded"
    TornTail((1, 3), 0.5).strike(crashed.disk)
    torn = sizes(crashed.disk)
    assert recorded < torn[0] == torn[2] < whole[0]
    assert torn[1] == whole[1]
    TornTail((1, 2, 3), 0.0).strike(crashed.disk)
    assert sizes(crashed.disk) == [recorded] * 3
    TornTail((1, 2, 3), 0.0).strike(crashed.disk)
    assert sizes(crashed.disk) == [recorded] * 3, "there is nothing left to take"


def test_a_stale_control_plane_is_an_earlier_one(crashed: Crashed) -> None:
    """By so many crashes, or the oldest there is."""
    before = crashed.disk.recorded_end(1)
    crashed.life()
    assert crashed.disk.recorded_end(1) > before
    StalePlane(1).strike(crashed.disk)
    crashed.disk.copy_control_plane()
    assert crashed.disk.recorded_end(1) == before
    StalePlane(99).strike(crashed.disk)
    LostPlane(also_wal=True).strike(crashed.disk)
    assert not list(crashed.data.glob("control.db*"))


@pytest.mark.parametrize("seed", range(10))
def test_no_fault_takes_what_was_acknowledged(crashed: Crashed, seed: int) -> None:
    """Lives that each end in a crash and drawn faults: the log end never falls below what was acknowledged."""
    chance = Random(seed)
    end = 0
    for _ in range(6):
        faults: tuple[Fault, ...] = draw_faults(chance, NODES)
        for fault in faults:
            fault.strike(crashed.disk)
        begun, end = end, crashed.life()
        assert end >= begun + 2, (seed, faults)


def test_garbage_is_behind_the_last_frame(crashed: Crashed) -> None:
    """What was there before stays as it is."""
    for kind in ("noise", "zeros", "half frame"):
        file = crashed.disk.last_journal(2)
        assert file is not None
        before = file.read_bytes()
        Garbage((2,), kind, 5).strike(crashed.disk)
        after = file.read_bytes()
        assert after.startswith(before)
        assert len(after) > len(before)
