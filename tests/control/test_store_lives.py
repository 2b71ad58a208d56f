"""The contract: stores come back, are fenced, begin another life, and take on partitions."""

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused
from holdfast.rules.removal import Cleaned, Removable
from holdfast.store.footer import LogStartMoved, PartitionsAdded
from holdfast.store.replica_changes import (
    HeldTo,
    ReplicasAssigned,
    StoreAdded,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from tests.control.frames import Apply
from tests.control.holdings import extent, held, leave, raw_held, write_two_partitions
from tests.control.manifests import TOPIC, carried, phases, published, segment

IN_SYNC, LOST, AWAY, JOINING, FENCED = (
    StorePhase.IN_SYNC,
    StorePhase.LOST,
    StorePhase.AWAY,
    StorePhase.JOINING,
    StorePhase.FENCED,
)


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """Two partitions on stores 1 and 2: the offsets [0, 30) in the first, [0, 10) in the second."""
    write_two_partitions(apply)
    return plane


def test_who_is_not_away_cannot_come(log: ControlPlane, apply: Apply) -> None:
    """Nor in another life, nor one that nobody knows."""
    with pytest.raises(CommitRefused, match="in sync, not away"):
        apply(StoreJoining(2, 1))
    with pytest.raises(CommitRefused, match="no store 7"):
        apply(StoreJoining(7, 1))
    apply(lost=(2,))
    with pytest.raises(CommitRefused, match="lost, not away"):
        apply(StoreJoining(2, 1))
    with pytest.raises(CommitRefused, match="lost, not joining"):
        apply(StoreJoined(2))
    leave(log, apply)
    with pytest.raises(CommitRefused, match="away, not joining"):
        apply(StoreJoined(2))
    with pytest.raises(CommitRefused, match="life 1, not 2"):
        apply(StoreJoining(2, 2))
    apply(StoreJoining(2, 1))
    with pytest.raises(CommitRefused, match="joining, not away"):
        apply(StoreJoining(2, 1))
    with pytest.raises(CommitRefused, match="no store 7"):
        apply(StoreJoined(7))


def test_a_fenced_store_comes_back_only_in_another_life(log: ControlPlane, apply: Apply) -> None:
    """There is no way back but to be rebuilt, and that once per life."""
    with pytest.raises(CommitRefused, match="neither fenced nor away"):
        apply(StoreRebuilt(2, 2))
    apply(StoreFenced(2))
    assert phases(log)[2] is FENCED
    for change, why in (
        (StoreFenced(2), "fenced already"),
        (StoreJoining(2, 1), "fenced, not away"),
        (StoreJoined(2), "fenced, not joining"),
        (StoreRebuilt(2, 1), "1 is not the next"),
        (StoreRebuilt(2, 3), "3 is not the next"),
        (StoreFenced(7), "no store 7"),
        (StoreRebuilt(7, 2), "no store 7"),
    ):
        with pytest.raises(CommitRefused, match=why):
            apply(change)
    apply(StoreLeft(2, ()))
    log.drop_stores([2])
    assert phases(log)[2] is FENCED, "it cannot leave any more"
    _, extents = log.find_extents(TOPIC, 0, 0, 1 << 30)
    assert all(set(each.places) == {1} for each in extents)
    assert log.find_size(TOPIC, 0, 2) == 0
    apply(StoreRebuilt(2, 2))
    assert phases(log)[2] is JOINING
    assert log.list_stores()[1].incarnation == 2
    with pytest.raises(CommitRefused, match="neither fenced nor away"):
        apply(StoreRebuilt(2, 3))


def test_a_rebuilt_store_is_empty(log: ControlPlane, apply: Apply) -> None:
    """Whatever it had before: segments, places, a generation, frames. Its partition begins where the log does."""
    apply(published(log, 2, segment(0, 20), mcco=20, mxfo=20), stores=(1, 2))
    assert log.find_checkpoint(2) is not None
    apply(LogStartMoved(TOPIC, 0, 15))
    apply(StoreLeft(2, ()))
    apply(StoreRebuilt(2, 2))
    assert log.list_files(2) == set()
    assert log.find_checkpoint(2) is None
    assert (log.find_oldest_journal(2), log.find_oldest_journal(1)) == (None, 1)
    assert raw_held(log) == [(15, 30), (0, 10)]
    assert log.find_removal(TOPIC, 0).replicas[1].generation == 0
    assert log.find_removal(TOPIC, 0).replicas[1].settled_to == 15
    _, extents = log.find_extents(TOPIC, 0, 15, 1 << 30)
    assert [set(each.places) for each in extents] == [{1}, {1}]
    with pytest.raises(CommitRefused, match="life 2, not 1"):
        apply(published(log, 2, segment(15, 30), incarnation=1))


def test_a_rebuilt_store_takes_over_segments_of_a_peer(log: ControlPlane, apply: Apply) -> None:
    """They carry it along as long as it has nothing above them; then it has to hold what it settles."""
    apply(StoreFenced(2))
    apply(StoreRebuilt(2, 2))
    apply(extent(30, 1, 2), stores=(1, 2))
    apply(published(log, 2, segment(0, 10)))
    assert raw_held(log)[0] == (10, 30)
    apply(carried(log, 2, 19))
    assert raw_held(log)[0] == (20, 30)
    with pytest.raises(CommitRefused, match="does not hold all below 30"):
        apply(published(log, 2, segment(10, 30)))
    apply(published(log, 2, segment(10, 20)))
    apply(published(log, 2, segment(20, 30)))
    assert held(log)[0] == 40
    with pytest.raises(CommitRefused, match="lacks something of 1 partitions"):
        apply(StoreJoined(2))
    apply(published(log, 2, segment(0, 10), partition=1))
    apply(StoreJoined(2))
    assert raw_held(log) == [(40, None), (10, None)]


def test_a_replica_away_does_not_take_over_segments(log: ControlPlane, apply: Apply) -> None:
    """It may settle what it holds, but it has to come back before it is given more."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(published(log, 2, segment(0, 30)))
    with pytest.raises(CommitRefused, match="does not hold all below 40"):
        apply(published(log, 2, segment(30, 40)))
    apply(StoreJoining(2, 1))
    apply(published(log, 2, segment(30, 40)))
    assert held(log)[0] == 40


def test_a_peers_segments_follow_the_log_start(log: ControlPlane, apply: Apply) -> None:
    """What was deleted while the store was away is no hole, wherever its own journal ended."""
    apply(published(log, 2, segment(0, 10)))
    apply(extent(30, 1, 2), extent(40, 1, 2), lost=(2,))
    leave(log, apply)
    apply(StoreJoining(2, 1))
    apply(LogStartMoved(TOPIC, 0, 35))
    apply(published(log, 2, segment(32, 50)))
    assert held(log)[0] == 50


def test_partitions_made_meanwhile_are_held_or_not(log: ControlPlane, apply: Apply) -> None:
    """An absent store has nothing of them, a joining one everything."""
    apply(StoreLeft(2, ()))
    apply(PartitionsAdded(TOPIC, 2, [[1, 2]]))
    apply(extent(0, 1, partition=2))
    assert log.find_held(TOPIC, 2, 2) == 0
    apply(StoreJoining(2, 1))
    apply(PartitionsAdded(TOPIC, 3, [[1, 2]]))
    apply(extent(0, 1, 2, partition=3), stores=(1, 2))
    assert log.find_held(TOPIC, 3, 2) == 10
    assert log.list_behind(2) == [HeldTo(TOPIC, 2, 0)]


def test_a_new_store_takes_on_a_partition(log: ControlPlane, apply: Apply) -> None:
    """In sync as it is, its replica is not before it has been copied."""
    apply(StoreAdded(3), StoreAdded(1))
    assert phases(log) == {1: IN_SYNC, 2: IN_SYNC, 3: IN_SYNC}
    apply(ReplicasAssigned(TOPIC, 0, (1, 3)))
    partition = log.find_partition(TOPIC, 0)
    assert (partition.replicas, partition.leader, partition.joining) == ((1, 3), 1, (3,))
    assert log.find_held(TOPIC, 0, 3) == 0
    _, extents = log.find_extents(TOPIC, 0, 0, 1 << 30)
    assert all(set(each.places) == {1} for each in extents)
    apply(extent(30, 1, 3), stores=(1, 3))
    with pytest.raises(CommitRefused, match="lacks something of 1 partitions"):
        apply(StoreJoined(3))
    apply(carried(log, 3, 9, 19, 29))
    assert log.find_held(TOPIC, 0, 3) == 40
    apply(StoreJoined(3))
    assert log.find_partition(TOPIC, 0).joining == ()
    assert log.find_held(TOPIC, 1, 2) == 10, "the other partition is where it was"


def test_a_reassignment_is_kept_until_another_assignment(log: ControlPlane, apply: Apply) -> None:
    """Who is brought and who is to go, of those who are there; anybody else makes no sense."""
    apply(StoreAdded(3))
    apply(ReplicasAssigned(TOPIC, 0, (3, 1, 2), 5, (3,), (2, 1)))
    for partition in (log.find_partition(TOPIC, 0), log.list_topics()[0].partitions[0]):
        assert (partition.replicas, partition.adding, partition.removing) == ((3, 1, 2), (3,), (2, 1))
    for adding, removing in (((4,), ()), ((), (4,))):
        with pytest.raises(CommitRefused, match="while it lies on"):
            apply(ReplicasAssigned(TOPIC, 0, (3, 1, 2), 5, adding, removing))
    apply(ReplicasAssigned(TOPIC, 0, (3, 1), 6))
    partition = log.find_partition(TOPIC, 0)
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 1), (), ())


def test_an_assignment_that_cannot_be_is_refused(log: ControlPlane, apply: Apply) -> None:
    """Without the leader, twice on one store, on a store that is away or unknown, of no partition."""
    apply(StoreAdded(3), StoreLeft(3, ()))
    for replicas, why in (
        ((2,), "led by store 1"),
        ((), "led by store 1"),
        ((1, 1), "led by store 1"),
        ((1, 3), "store 3 is away"),
        ((1, 4), "no store 4"),
    ):
        with pytest.raises(CommitRefused, match=why):
            apply(ReplicasAssigned(TOPIC, 0, replicas))
    with pytest.raises(CommitRefused, match="there is no"):
        apply(ReplicasAssigned(TOPIC, 2, (1,)))
    assert log.find_partition(TOPIC, 0).replicas == (1, 2)


def test_a_replica_that_went_leaves_nothing_behind(log: ControlPlane, apply: Apply) -> None:
    """If it comes again, it begins empty."""
    apply(published(log, 2, segment(0, 10), mcco=10, mxfo=10))
    apply(ReplicasAssigned(TOPIC, 0, (1,)))
    assert log.list_files(2) == set()
    assert [each.store for each in log.find_removal(TOPIC, 0).replicas] == [1]
    apply(ReplicasAssigned(TOPIC, 0, (2, 1)))
    newcomer = log.find_removal(TOPIC, 0).replicas[1]
    assert (newcomer.generation, newcomer.settled_to, newcomer.held_to, newcomer.joined_from) == (0, 0, 0, 30)
    assert log.find_partition(TOPIC, 0).replicas == (2, 1)


def test_who_counts_at_once_and_from_where(log: ControlPlane, apply: Apply) -> None:
    """A rebuilt store and a newcomer start from the group's values, above their own log end."""
    for store in (1, 2):
        apply(published(log, store, segment(0, 20), mcco=10 * store, mxfo=20))
    apply(StoreFenced(2))
    assert log.find_removal(TOPIC, 0).removable == Removable(mtro=10, mxro=20)
    apply(StoreRebuilt(2, 2), StoreAdded(3))
    apply(ReplicasAssigned(TOPIC, 0, (1, 2, 3)))
    removal = log.find_removal(TOPIC, 0)
    assert [each.cleaned for each in removal.replicas[1:]] == [Cleaned(mcco=10, mxfo=20)] * 2
    assert [each.held_to for each in removal.replicas[1:]] == [0, 0]
    apply(published(log, 1, mcco=20))
    assert log.find_removal(TOPIC, 0).removable == Removable(mtro=10, mxro=20), "they hold it back"
