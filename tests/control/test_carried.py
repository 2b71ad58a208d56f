"""The contract: extents that were copied out of a journal, and which files are in use."""

from dataclasses import replace
from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.errors import CommitRefused
from holdfast.store.footer import ExtentAppended, LogStartMoved, TopicCreated, TopicDeleted
from holdfast.store.replica_changes import CarriedExtent, KeeperLeased, ReplicasAssigned, StoreFenced
from holdfast.store.store import CARRIED, Place
from tests.control.frames import Apply, stored
from tests.control.manifests import TOPIC, carried, published, segment

OTHER = UUID(int=2)


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """A partition on stores 1 and 2: [0, 10) in journal 5, [10, 20) and [20, 30) in journal 6 of either."""
    apply(TopicCreated("orders", TOPIC, [[1, 2]], {}))
    for number, journal in ((2, 5), (3, 6), (4, 6)):
        first = 10 * (number - 2)
        frames = [
            replace(frame, body=Place(journal=journal, position=1000 * number))
            for frame in stored(apply.next_number(), 1, 2)
        ]
        plane.apply(frames, [ExtentAppended(TOPIC, 0, first, first + 9, [1, 2], 100, 5, 0)])
    return plane


def places(plane: ControlPlane, store: int) -> list[tuple[int, int] | None]:
    """Where the extents lie on a store."""
    _, extents = plane.find_extents(TOPIC, 0, 0, 1 << 30)
    found = [extent.places.get(store) for extent in extents]
    return [None if place is None else (place.journal, place.position) for place in found]


def test_carried_extents_lie_in_their_file(log: ControlPlane, apply: Apply) -> None:
    """On that store; on the other one they lie where they lay."""
    apply(carried(log, 1, 9, 19, number=3))
    assert places(log, 1) == [(CARRIED + 3, 0), (CARRIED + 3, 100), (6, 4000)]
    assert places(log, 2) == [(5, 2000), (6, 3000), (6, 4000)]
    apply(carried(log, 1, 19, number=4))
    assert places(log, 1) == [(CARRIED + 3, 0), (CARRIED + 4, 0), (6, 4000)]


def test_files_are_in_use_while_extents_lie_in_them(log: ControlPlane, apply: Apply) -> None:
    """A journal whose extents were all carried is not, though a later one is."""
    assert (log.find_oldest_journal(1), log.find_carried(1)) == (5, set())
    apply(carried(log, 1, 9, number=3))
    assert (log.find_oldest_journal(1), log.find_carried(1)) == (6, {CARRIED + 3})
    apply(carried(log, 1, 19, 29, number=4))
    assert (log.find_oldest_journal(1), log.find_carried(1)) == (CARRIED + 3, {CARRIED + 3, CARRIED + 4})
    apply(carried(log, 1, 9, 19, number=7))
    assert log.find_carried(1) == {CARRIED + 7, CARRIED + 4}
    assert (log.find_oldest_journal(2), log.find_carried(2)) == (5, set())
    assert (log.find_oldest_journal(3), log.find_carried(3)) == (None, set())


def test_what_a_store_has_settled_is_not_in_use_there(log: ControlPlane, apply: Apply) -> None:
    """Its segments hold it, however far the others are."""
    apply(carried(log, 1, 9, 19, number=3))
    apply(published(log, 1, segment(0, 10)))
    assert (log.find_oldest_journal(1), log.find_carried(1)) == (6, {CARRIED + 3})
    apply(published(log, 1, segment(10, 20)))
    assert (log.find_oldest_journal(1), log.find_carried(1)) == (6, set())
    apply(published(log, 1, segment(20, 30)))
    assert log.find_oldest_journal(1) is None
    assert log.find_oldest_journal(2) == 5


def test_what_was_deleted_is_not_in_use(log: ControlPlane, apply: Apply) -> None:
    """Records, a replica, a topic."""
    apply(LogStartMoved(TOPIC, 0, 10))
    assert log.find_oldest_journal(1) == 6
    apply(ReplicasAssigned(TOPIC, 0, (1,)))
    assert log.find_oldest_journal(2) is None
    apply(TopicDeleted(TOPIC))
    assert log.find_oldest_journal(1) is None


def test_nothing_of_a_fenced_store_is_in_use(log: ControlPlane, apply: Apply) -> None:
    """It serves nobody."""
    apply(carried(log, 2, 9))
    apply(StoreFenced(2))
    assert (log.find_oldest_journal(2), log.find_carried(2)) == (None, set())


@pytest.mark.parametrize(
    ("other", "why"),
    [({"lease": 0}, "lease of store 1 is 1, not 0"), ({"incarnation": 2}, "life 1, not 2")],
)
def test_only_the_keeper_of_this_life_carries(
    log: ControlPlane, apply: Apply, other: dict[str, int], why: str
) -> None:
    """As with segments."""
    apply(KeeperLeased(1, 1))
    with pytest.raises(CommitRefused, match=why):
        apply(carried(log, 1, 9, **other))


@pytest.mark.parametrize(
    "extent",
    [
        CarriedExtent(TOPIC, 0, 39, 0),
        CarriedExtent(TOPIC, 0, 30, 0),
        CarriedExtent(TOPIC, 1, 9, 0),
        CarriedExtent(OTHER, 0, 9, 0),
    ],
)
def test_what_was_never_written_is_not_carried(
    log: ControlPlane, apply: Apply, extent: CarriedExtent
) -> None:
    """Nor is anything that stands with it in the change."""
    change = carried(log, 1, 9)
    with pytest.raises(CommitRefused):
        apply(replace(change, extents=(*change.extents, extent)))
    assert places(log, 1) == [(5, 2000), (6, 3000), (6, 4000)]


def test_a_store_carries_what_it_holds(log: ControlPlane, apply: Apply) -> None:
    """Not what it has no replica of, nor when it is fenced."""
    log.add_store(3)
    with pytest.raises(CommitRefused, match="for store 3"):
        apply(carried(log, 3, 9))
    late = carried(log, 2, 9)
    apply(StoreFenced(2))
    with pytest.raises(CommitRefused, match="store 2 is fenced"):
        apply(late)
    with pytest.raises(CommitRefused, match="no store 7"):
        apply(replace(late, store=7))


def test_what_was_trimmed_meanwhile_is_passed_over(log: ControlPlane, apply: Apply) -> None:
    """When that happens is nobody's business: it must not decide whether a frame counts."""
    apply(LogStartMoved(TOPIC, 0, 10))
    log.trim(10)
    apply(carried(log, 1, 9, 19))
    _, extents = log.find_extents(TOPIC, 0, 10, 1 << 30)
    assert [extent.places[1].journal for extent in extents] == [CARRIED, 6]
