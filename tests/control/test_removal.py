"""The contract: MTRO and MXRO, the minimum over all who count, and never back."""

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.rules.grace import Coverage
from holdfast.rules.removal import Removable
from holdfast.store.footer import ExtentAppended, TopicCreated
from holdfast.store.replica_changes import (
    ReplicasAssigned,
    StoreFenced,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from tests.control.frames import Apply
from tests.control.manifests import TOPIC, published, segment


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """A partition on stores 1, 2 and 3 with the offsets [0, 100), all of them settled everywhere."""
    plane.add_store(3)
    apply(TopicCreated("orders", TOPIC, [[1, 2, 3]], {}))
    apply(ExtentAppended(TOPIC, 0, 0, 99, [1, 2, 3], 100, 5, 0), stores=(1, 2, 3))
    for store in (1, 2, 3):
        apply(published(plane, store, segment(0, 100)))
    return plane


def report(
    plane: ControlPlane, apply: Apply, store: int, mcco: int, mxfo: int, at_ms: int = 1000
) -> Removable:
    """A manifest that says no more than this; the group's values after it."""
    apply(published(plane, store, mcco=mcco, mxfo=mxfo, at_ms=at_ms))
    return plane.find_removal(TOPIC, 0).removable


def test_it_is_the_minimum_over_all(log: ControlPlane, apply: Apply) -> None:
    """Track by track; who has reported nothing has reported 0, for he was there from the beginning."""
    assert report(log, apply, 1, 50, 60) == Removable(mtro=0, mxro=0)
    assert report(log, apply, 2, 40, 90) == Removable(mtro=0, mxro=0)
    assert report(log, apply, 3, 45, 70) == Removable(mtro=40, mxro=60)
    assert report(log, apply, 2, 80, -1) == Removable(mtro=45, mxro=60)
    assert report(log, apply, 1, -1, 100) == Removable(mtro=45, mxro=70)
    assert log.find_removal(TOPIC, 0).membership == 1


@pytest.mark.parametrize("comes_back", [False, True])
def test_who_is_away_counts(log: ControlPlane, apply: Apply, comes_back: bool) -> None:
    """And so does who is on the way back: nothing is forgotten that it has not acted on."""
    report(log, apply, 3, 10, 20)
    apply(StoreLeft(3, ()))
    if comes_back:
        apply(StoreJoining(3, 1))
    for store in (1, 2):
        removable = report(log, apply, store, 100, 100)
    assert removable == Removable(mtro=10, mxro=20)
    assert [each.store for each in log.find_removal(TOPIC, 0).replicas] == [1, 2, 3]


def test_who_is_fenced_does_not_count(log: ControlPlane, apply: Apply) -> None:
    """The others decide from that frame on; its grace begins when the frame says."""
    for store in (1, 2):
        report(log, apply, store, 60 + store, 70 + store)
    apply(StoreFenced(3, 5000))
    removal = log.find_removal(TOPIC, 0)
    assert removal.removable == Removable(mtro=61, mxro=71)
    assert removal.coverage == Coverage(entries=((61, 5000),))
    assert removal.membership == 2
    assert [each.store for each in removal.replicas] == [1, 2]


def test_a_fence_without_a_time_begins_no_grace(log: ControlPlane, apply: Apply) -> None:
    """The next report does."""
    for store in (1, 2):
        report(log, apply, store, 60, 70)
    apply(StoreFenced(3))
    assert log.find_removal(TOPIC, 0).coverage == Coverage()
    report(log, apply, 1, -1, -1, at_ms=9000)
    assert log.find_removal(TOPIC, 0).coverage == Coverage(entries=((60, 9000),))


def test_nobody_left_decides_nothing(log: ControlPlane, apply: Apply) -> None:
    """Without members the values stay where they are."""
    for store in (1, 2, 3):
        report(log, apply, store, 30, 40)
    for store in (1, 2, 3):
        apply(StoreFenced(store))
    removal = log.find_removal(TOPIC, 0)
    assert removal.removable == Removable(mtro=30, mxro=40)
    assert removal.replicas == ()
    assert removal.membership == 4


def test_it_never_goes_back(log: ControlPlane, apply: Apply) -> None:
    """Whoever joins: a newcomer starts at the values that there are."""
    for store in (1, 2, 3):
        report(log, apply, store, 30, 40)
    log.add_store(4)
    apply(ReplicasAssigned(TOPIC, 0, (1, 2, 3, 4), 7000))
    apply(StoreFenced(3))
    apply(StoreRebuilt(3, 2))
    removal = log.find_removal(TOPIC, 0)
    assert removal.removable == Removable(mtro=30, mxro=40)
    assert removal.membership == 4
    assert report(log, apply, 1, 20, 25) == Removable(mtro=30, mxro=40)
    assert log.find_removal(TOPIC, 0).replicas[0].cleaned.mcco == 30, "nor does what a replica said"


def test_a_replica_that_goes_lets_the_others_go_on(log: ControlPlane, apply: Apply) -> None:
    """At once, and in their own time."""
    for store in (1, 2):
        report(log, apply, store, 60, 70)
    apply(ReplicasAssigned(TOPIC, 0, (1, 2), 8000))
    removal = log.find_removal(TOPIC, 0)
    assert removal.removable == Removable(mtro=60, mxro=70)
    assert removal.coverage == Coverage(entries=((60, 8000),))


def test_times_tell_since_when(log: ControlPlane, apply: Apply) -> None:
    """Each replica since when it is clean, the group since when all are."""
    report(log, apply, 1, 50, 50, at_ms=1000)
    report(log, apply, 2, 40, 40, at_ms=2000)
    report(log, apply, 1, 60, 60, at_ms=3000)
    report(log, apply, 3, 70, 70, at_ms=4000)
    report(log, apply, 2, 65, 65, at_ms=5000)
    removal = log.find_removal(TOPIC, 0)
    assert removal.coverage == Coverage(entries=((40, 4000), (60, 5000)))
    assert removal.replicas[0].clean_coverage == Coverage(entries=((50, 1000), (60, 3000)))
    assert removal.replicas[1].clean_coverage == Coverage(entries=((40, 2000), (65, 5000)))


def test_a_rebuilt_replica_is_clean_since_its_first_manifest(log: ControlPlane, apply: Apply) -> None:
    """Its start has no time: consumers' grace is counted anew there, which can only prolong it."""
    for store in (1, 2, 3):
        report(log, apply, store, 30, 40)
    apply(StoreLeft(3, ()))
    apply(StoreRebuilt(3, 2))
    assert log.find_removal(TOPIC, 0).replicas[2].clean_coverage == Coverage()
    apply(published(log, 3, segment(0, 10), at_ms=6000))
    assert log.find_removal(TOPIC, 0).replicas[2].clean_coverage == Coverage(entries=((30, 6000),))


def test_a_rebuilt_replica_may_say_that_it_is_clean_where_it_started(log: ControlPlane, apply: Apply) -> None:
    """Above its segments' end, but not above its start."""
    for store in (1, 2, 3):
        report(log, apply, store, 30, 40)
    apply(StoreLeft(3, ()))
    apply(StoreRebuilt(3, 2))
    apply(published(log, 3, segment(0, 10), mcco=30, mxfo=40))
    with pytest.raises(CommitRefused, match="cannot be clean"):
        apply(published(log, 3, mxfo=41))
