"""Several stores: a frame goes to all of them, one that fails leaves, a crash in the middle is healed."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.agent.committer import Committed, Committer
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.agent.partition_key import PartitionKey
from holdfast.agent.store_set import StoreSet
from holdfast.agent.writes import AppendBatch, CreateTopic, MoveLeader, Stored, Upkeep, UpkeepOfMany
from holdfast.errors import (
    CommitRefused,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    StorageUnavailable,
    StoreFailed,
)
from holdfast.records.walk import walk_valid
from holdfast.store.faulty import FaultyStore
from holdfast.store.footer import TopicCreated
from holdfast.store.local import LocalStore
from holdfast.store.replica_changes import KeeperLeased, ReplicasAssigned
from tests.agent.batches import NOW_MS, batch, view
from tests.agent.faults import FaultyPlane, faulty_store

TOPIC = UUID(int=1)
WIDE = PartitionKey(TOPIC, 0)
"""On stores 1, 2 and 3, led by 1."""
NARROW = PartitionKey(TOPIC, 1)
"""On stores 2 and 3 only, led by 2."""


class Trio:
    """A committer over three stores; `reopen` is what a restart does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.append_seconds_max = 10.0
        self.reopen()

    def reopen(self) -> None:
        self.plane = FaultyPlane(self._directory / "control.db")
        self.stores = {n: faulty_store(self._directory / str(n), store=n) for n in (1, 2, 3)}
        self._set = StoreSet(self.stores.values(), append_seconds_max=self.append_seconds_max)
        self.committer = Committer(plane=self.plane, stores=self._set, now_ms=lambda: NOW_MS)
        self.committer.recover()

    def close(self) -> None:
        self._set.close()
        self.plane.close()

    def restart(self) -> None:
        self.close()
        self.reopen()

    def lose_control_plane(self) -> None:
        self.close()
        for file in self._directory.glob("control.db*"):
            file.unlink()
        self.reopen()

    def append(
        self, value: bytes, key: PartitionKey = WIDE, *, leader: int = 0, in_sync_min: int = 2
    ) -> object:
        leader = leader or self.plane.find_partition(*key).leader
        write = AppendBatch(key, view(batch(value)), leader, in_sync_min=in_sync_min)
        return self.committer.commit([write]).answers[0]

    def move(self, key: PartitionKey, leader: int) -> Committed:
        return self.committer.commit([MoveLeader(key, leader)])

    def values(self, store: int, key: PartitionKey = WIDE) -> list[int]:
        """Base offsets that a reader of one store finds, every batch valid."""
        reader = PartitionReader(self.plane, self.stores[store])
        data = reader.read(key, 0, bytes_max=1 << 20, at_least_one=True)
        return [one.base_offset for chunk in data.chunks for one in walk_valid(chunk)]


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    trio = Trio(tmp_path)
    trio.committer.commit([CreateTopic(TopicCreated("t", TOPIC, [[1, 2, 3], [2, 3]], {}))])
    yield trio
    trio.close()


def offset_of(answer: object) -> int:
    assert isinstance(answer, Stored), answer
    return answer.first_offset


def test_every_replica_holds_its_partitions_and_no_others(trio: Trio) -> None:
    """Each store is readable by itself; a store that is no replica has no bytes of the partition."""
    for number in range(3):
        assert offset_of(trio.append(b"wide")) == number
        assert offset_of(trio.append(b"narrow", NARROW)) == number
    for store in (1, 2, 3):
        assert trio.values(store) == [0, 1, 2]
    assert trio.values(2, NARROW) == trio.values(3, NARROW) == [0, 1, 2]
    with pytest.raises(NotLeaderOrFollower, match="store 1 does not serve"):
        trio.values(1, NARROW)


def test_a_store_that_fails_leaves_and_writes_go_on(trio: Trio) -> None:
    """Acknowledged by the two others; the lost one is in sync no longer, also after a restart."""
    trio.stores[3].fail_appends = 1
    assert offset_of(trio.append(b"a")) == 0
    assert offset_of(trio.append(b"b")) == 1
    assert trio.plane.find_in_sync() == {1, 2}
    trio.restart()
    assert trio.plane.find_in_sync() == {1, 2}
    assert offset_of(trio.append(b"c")) == 2
    assert trio.values(1) == trio.values(2) == [0, 1, 2]
    with pytest.raises(StoreFailed, match="store 3 lacks"):
        trio.values(3)


def test_leadership_leaves_a_lost_store(trio: Trio) -> None:
    """The next replica in sync leads, under a new epoch; the old leader is refused."""
    trio.append(b"a")
    trio.stores[1].fail_appends = 1
    assert offset_of(trio.append(b"b")) == 1
    partition = trio.plane.find_partition(*WIDE)
    assert (partition.leader, partition.leader_epoch) == (2, 1)
    assert isinstance(trio.append(b"zombie", leader=1), NotLeaderOrFollower)
    assert offset_of(trio.append(b"c", leader=2)) == 2
    assert trio.plane.find_epoch_end(*WIDE, 0) == (0, 2)


def test_placements_are_judged_with_the_leaders_that_their_frame_moves(trio: Trio) -> None:
    """One that leaves the new leader out is refused alone; one that names it fits, wherever the leader was before."""
    out = Upkeep(ReplicasAssigned(TOPIC, 0, (1, 3)), trio.plane)
    batch_beside = AppendBatch(NARROW, view(batch(b"a")), 2, in_sync_min=2)
    moved, refused, stored = trio.committer.commit([MoveLeader(WIDE, 2), out, batch_beside]).answers
    assert (moved, offset_of(stored)) == (None, 0)
    assert isinstance(refused, CommitRefused)
    fitting = Upkeep(ReplicasAssigned(TOPIC, 0, (3, 1)), trio.plane)
    assert trio.committer.commit([MoveLeader(WIDE, 3), fitting]).answers == [None, None]
    partition = trio.plane.find_partition(*WIDE)
    assert (partition.leader, partition.replicas) == (3, (3, 1))


def test_upkeep_of_many_leaves_out_what_does_not_fit(trio: Trio) -> None:
    """Each is judged with what fits before it and with the rest of the group; one frame holds all that is left."""
    one, two = KeeperLeased(1, 1), KeeperLeased(2, 1)
    frame = trio.committer.last_frame
    before = Upkeep(KeeperLeased(3, 1), trio.plane)
    many = UpkeepOfMany([one, KeeperLeased(3, 1), KeeperLeased(1, 1), two, KeeperLeased(1, 2)], trio.plane)
    batch_beside = AppendBatch(NARROW, view(batch(b"a")), 2, in_sync_min=2)
    done, refused, stored = trio.committer.commit([before, many, batch_beside]).answers
    assert (done, offset_of(stored)) == (None, 0)
    assert isinstance(refused, list)
    assert [refusal and str(refusal) for refusal in refused] == [
        None,
        "the lease of store 3 is 1: 1 is not the next",
        "the lease of store 1 is 1: 1 is not the next",
        None,
        None,
    ]
    assert trio.committer.last_frame == frame + 1
    assert [state.lease for state in trio.plane.list_stores()] == [2, 1, 1]


def test_upkeep_of_which_nothing_fits_is_no_frame(trio: Trio) -> None:
    """Nor does it harm what is planned with it."""
    frame = trio.committer.last_frame
    (refused,) = trio.committer.commit([UpkeepOfMany([KeeperLeased(1, 7)] * 2, trio.plane)]).answers
    assert isinstance(refused, list)
    assert [type(refusal) for refusal in refused] == [CommitRefused] * 2
    assert trio.committer.last_frame == frame


def test_min_insync_replicas_is_judged_per_partition(trio: Trio) -> None:
    """Too few before the write: refused. Too few after it: written, but not acknowledged."""
    trio.stores[3].fail_appends = 1
    assert isinstance(trio.append(b"a", NARROW), NotEnoughReplicasAfterAppend)
    assert trio.values(2, NARROW) == [0]
    assert isinstance(trio.append(b"b", NARROW), NotEnoughReplicas)
    assert trio.values(2, NARROW) == [0]
    assert offset_of(trio.append(b"c", NARROW, in_sync_min=1)) == 1
    assert offset_of(trio.append(b"d", WIDE)) == 0


def test_no_store_leaves_when_all_fail(trio: Trio) -> None:
    """A disk that is full for all of them loses no replica: the same frame succeeds later."""
    for store in trio.stores.values():
        store.fail_appends = 1
    assert isinstance(trio.append(b"a"), StorageUnavailable)
    assert trio.plane.find_in_sync() == {1, 2, 3}
    assert offset_of(trio.append(b"b")) == 0
    trio.restart()
    assert trio.values(1) == trio.values(2) == trio.values(3) == [0]


def test_a_store_that_turns_read_only_leaves(trio: Trio) -> None:
    """What it has may still be read; if all turn read-only, none leaves, and writes go on when that is over."""
    trio.append(b"a")
    trio.stores[3].is_read_only = True
    assert offset_of(trio.append(b"b")) == 1
    assert trio.plane.find_in_sync() == {1, 2}
    trio.stores[1].is_read_only = trio.stores[2].is_read_only = True
    assert isinstance(trio.append(b"refused"), StorageUnavailable)
    assert trio.plane.find_in_sync() == {1, 2}
    assert trio.values(1) == [0, 1]
    trio.stores[1].is_read_only = trio.stores[2].is_read_only = False
    assert offset_of(trio.append(b"c")) == 2


def test_a_frame_that_failed_late_on_all_stores_does_not_come_back(trio: Trio) -> None:
    """It is durable everywhere and refused to the client; the next frame has its number and voids it."""
    for store in trio.stores.values():
        store.fail_after_appends = 1
    assert isinstance(trio.append(b"refused"), StorageUnavailable)
    assert offset_of(trio.append(b"taken")) == 0
    trio.lose_control_plane()
    assert trio.plane.find_in_sync() == {1, 2, 3}
    assert [trio.values(n) for n in (1, 2, 3)] == [[0]] * 3


@pytest.mark.timeout(20)
def test_a_store_that_hangs_is_not_waited_for(trio: Trio) -> None:
    """Past its deadline it is lost; what it writes afterwards disturbs nobody."""
    trio.append_seconds_max = 0.2
    trio.restart()
    trio.stores[2].hang()
    assert offset_of(trio.append(b"a")) == 0
    assert trio.plane.find_in_sync() == {1, 3}
    trio.stores[2].release()
    assert offset_of(trio.append(b"b")) == 1
    trio.restart()
    assert trio.values(1) == trio.values(3) == [0, 1]


def test_a_late_write_of_a_failed_frame_is_void(trio: Trio) -> None:
    """Two stores failed and one hung, so the frame was nowhere; then the third one wrote it after all."""
    trio.append_seconds_max = 0.2
    trio.restart()
    trio.stores[1].fail_appends = trio.stores[3].fail_appends = 1
    trio.stores[2].hang()
    assert isinstance(trio.append(b"late"), StorageUnavailable)
    trio.stores[2].release()
    trio._set._append_seconds_max = 10.0
    assert offset_of(trio.append(b"in time")) == 0
    assert trio.stores[2].durable[-2:] == [2, 2], "frame 2 was written twice"
    trio.lose_control_plane()
    assert trio.plane.find_in_sync() == {1, 2, 3}
    assert [trio.values(n) for n in (1, 2, 3)] == [[0]] * 3


def test_a_store_with_a_gap_does_not_serve_alone(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed right after a store was lost, and the others are gone at the next start: an error, not a gap."""

    def crash(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(trio.committer, "_depose", crash)
    trio.stores[3].fail_appends = 1
    with pytest.raises(SystemExit):
        trio.append(b"acknowledged by 1 and 2")
    for store in (1, 2):
        _journal(trio.stores[store]).unlink()
    with pytest.raises(StoreFailed, match="is missing"):
        trio.restart()


@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_a_frame_that_a_crash_left_on_some_stores_is_given_to_the_others(trio: Trio, lacking: int) -> None:
    """Nobody was told about it, so it may stay; then all stores must have it, narrow partitions included."""
    trio.append(b"a")
    trio.append(b"b", NARROW)
    before = {n: _size(store) for n, store in trio.stores.items()}
    trio.plane.fail_applies = 1
    write = [AppendBatch(WIDE, view(batch(b"c")), 1), AppendBatch(NARROW, view(batch(b"d")), 2)]
    assert all(isinstance(answer, StorageUnavailable) for answer in trio.committer.commit(write).answers)
    _cut(trio.stores[lacking], before[lacking])
    trio.restart()
    assert trio.plane.find_in_sync() == {1, 2, 3}
    assert [trio.values(n) for n in (1, 2, 3)] == [[0, 1]] * 3
    assert [trio.values(n, NARROW) for n in (2, 3)] == [[0, 1]] * 2
    trio.restart()
    assert offset_of(trio.append(b"e")) == 2


def test_a_store_that_cannot_be_replayed_leaves(trio: Trio) -> None:
    """Acknowledged bytes are gone from one store: the others serve on, and it is not asked again."""
    trio.append(b"a")
    trio.append(b"b")
    _cut(trio.stores[2], _size(trio.stores[2]) - 1)
    trio.restart()
    assert trio.plane.find_in_sync() == {1, 3}
    assert trio.values(1) == trio.values(3) == [0, 1]
    assert offset_of(trio.append(b"c")) == 2


def test_the_control_plane_is_rebuilt_from_all_stores(trio: Trio) -> None:
    """Without control.db the journals say everything, and who has left is found out again."""
    trio.append(b"a")
    trio.append(b"b", NARROW)
    trio.move(WIDE, 2)
    trio.stores[3].fail_appends = 1
    trio.append(b"c")
    trio.lose_control_plane()
    assert trio.plane.find_partition(*WIDE).leader == 2
    assert trio.values(1) == trio.values(2) == [0, 1]
    assert trio.plane.find_in_sync() == {1, 2}


def test_stores_that_disagree_are_refused(trio: Trio) -> None:
    """Two different frames of one number: no rule can tell which one was promised."""
    trio.append(b"a")
    journal = {n: _journal(store).read_bytes() for n, store in trio.stores.items()}
    trio.plane.fail_applies = 1
    trio.append(b"one")
    theirs = _journal(trio.stores[1]).read_bytes()
    for n, store in trio.stores.items():
        _journal(store).write_bytes(journal[n])
    trio.restart()
    trio.plane.fail_applies = 1
    trio.append(b"other")
    _journal(trio.stores[1]).write_bytes(theirs)
    with pytest.raises(StoreFailed, match="disagree about frame"):
        trio.restart()


@pytest.mark.parametrize("failures", [1, 3])
def test_a_commit_counts_although_leaders_cannot_be_moved_yet(trio: Trio, failures: int) -> None:
    """What two stores took is acknowledged; moving leadership off the third is made up for by a later commit."""
    left = {2: failures, 3: failures}
    trio.stores[1].fail_appends = 1
    for store in (trio.stores[2], trio.stores[3]):

        def fail_some(number: int, *rest: Any, _store: FaultyStore = store) -> Any:
            if number == 3 and left[_store.number]:
                left[_store.number] -= 1
                raise StoreFailed("no space left on device")
            return FaultyStore.append(_store, number, *rest)

        store.append = fail_some  # type: ignore[method-assign, assignment]
    assert offset_of(trio.append(b"a")) == 0
    assert trio.plane.find_partition(*WIDE).leader == 1
    for _ in range(failures):
        trio.committer.commit([])
    assert trio.plane.find_partition(*WIDE).leader == 2
    assert offset_of(trio.append(b"b")) == 1


def test_writes_to_the_stores_run_side_by_side(trio: Trio) -> None:
    """No store waits for another: all three are inside of their append at the same moment."""
    meeting = threading.Barrier(3, timeout=10)
    for store in trio.stores.values():
        append = store.append

        def meet(*arguments: object, _append: object = append) -> object:
            meeting.wait()
            return _append(*arguments)  # type: ignore[operator]

        store.append = meet  # type: ignore[method-assign, assignment]
    assert offset_of(trio.append(b"a")) == 0


def _journal(store: FaultyStore) -> Path:
    assert isinstance(store.wrapped, LocalStore)
    return sorted((store.wrapped._directory / "journal").iterdir())[-1]


def _size(store: FaultyStore) -> int:
    return _journal(store).stat().st_size


def _cut(store: FaultyStore, size: int) -> None:
    with _journal(store).open("r+b") as file:
        file.truncate(size)
