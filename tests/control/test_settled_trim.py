"""The contract: extents that every member has settled are trimmed, and with them the outcomes that they named."""

from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.rules.removal import Removable
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    LogStartMoved,
    TopicCreated,
    TopicDeleted,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.replica_changes import (
    ReplicasAssigned,
    StoreFenced,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from tests.control.answers import named_instances
from tests.control.frames import Apply
from tests.control.manifests import TOPIC, published, segment

OTHER = UUID(int=2)


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """A partition on stores 1 and 2: five extents of ten offsets, each a transaction of its own."""
    apply(TopicCreated("orders", TOPIC, [[1, 2]], {}), TopicCreated("other", OTHER, [[1, 2]], {}))
    for number in range(1, 6):
        apply(*transaction(number, extent(10 * (number - 1), number)), stores=(1, 2))
    return plane


def extent(first: int, instance: int, topic_id: UUID = TOPIC) -> ExtentAppended:
    """Ten offsets of a transaction."""
    return ExtentAppended(topic_id, 0, first, first + 9, [1, 2], 100, first, 0, instance)


def transaction(instance: int, *extents: Change) -> list[Change]:
    """Begun and committed in one frame."""
    return [TransactionBegun(instance, 7), *extents, TransactionEnded(instance, True, 1)]


def settle(
    plane: ControlPlane, apply: Apply, store: int, first: int, end: int, mxfo: int | None = None
) -> None:
    """Published, and clean as far."""
    apply(published(plane, store, segment(first, end), mxfo=end if mxfo is None else mxfo))


def extents(plane: ControlPlane, topic_id: UUID = TOPIC) -> list[int]:
    """Where those begin that are left."""
    bounds = plane.find_bounds(topic_id, 0)
    return [each.first for each in plane.find_extents(topic_id, 0, bounds.start, 1 << 30)[1]]


def test_what_all_have_settled_goes(log: ControlPlane, apply: Apply) -> None:
    """Up to where the last of them is, in steps; reading each store goes on as before."""
    settle(log, apply, 1, 0, 40)
    assert log.trim(10) == 0
    settle(log, apply, 2, 0, 30)
    removal = log.find_removal(TOPIC, 0)
    assert (removal.removable, removal.trimmed_to) == (Removable(mtro=0, mxro=30), 30)
    before = [log.find_pieces(TOPIC, 0, store, 0, 1 << 30) for store in (1, 2)]
    sizes = [log.find_size(TOPIC, 0, store) for store in (1, 2)]
    assert [log.trim(2) for _ in range(3)] == [2, 1, 0]
    assert extents(log) == [30, 40]
    assert [log.find_pieces(TOPIC, 0, store, 0, 1 << 30) for store in (1, 2)] == before
    assert [log.find_size(TOPIC, 0, store) for store in (1, 2)] == sizes
    assert named_instances(log) == {4, 5}


def test_an_extent_whose_last_record_is_still_there_stays(log: ControlPlane, apply: Apply) -> None:
    """The log start is the first offset that is there: an extent goes when all of it lies below."""
    apply(LogStartMoved(TOPIC, 0, 19))
    assert (log.trim(10), extents(log)) == (1, [10, 20, 30, 40])
    apply(LogStartMoved(TOPIC, 0, 20))
    assert (log.trim(10), extents(log)) == (1, [20, 30, 40])


def test_what_the_last_has_not_said_to_be_settled_stays(log: ControlPlane, apply: Apply) -> None:
    """Segments alone do not do: MXRO says what may be forgotten."""
    settle(log, apply, 1, 0, 40)
    settle(log, apply, 2, 0, 40, mxfo=20)
    assert log.trim(10) == 2
    assert extents(log) == [20, 30, 40]


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_a_store_away_needs_stays(log: ControlPlane, apply: Apply, comes_back: bool) -> None:
    """And what one on its way back needs; a fenced one needs nothing."""
    settle(log, apply, 2, 0, 10)
    apply(StoreLeft(2, ()))
    if comes_back:
        apply(StoreJoining(2, 1))
    settle(log, apply, 1, 0, 50)
    while log.trim(10):
        pass
    assert extents(log) == [10, 20, 30, 40]
    assert named_instances(log) == {2, 3, 4, 5}
    apply(StoreFenced(2))
    while log.trim(10):
        pass
    assert extents(log) == []
    assert named_instances(log) == set()


def test_what_a_newcomer_has_not_settled_stays(log: ControlPlane, apply: Apply) -> None:
    """Its MXFO lies above, which is where it started: its segments decide."""
    for store in (1, 2):
        settle(log, apply, store, 0, 30)
    apply(StoreLeft(2, ()))
    apply(StoreRebuilt(2, 2))
    assert log.trim(10) == 0, "it may still use what happens to be there"
    assert log.find_removal(TOPIC, 0).trimmed_to == 30, "but must not rely on it"
    apply(published(log, 2, segment(0, 20)))
    assert log.trim(10) == 2
    assert extents(log) == [20, 30, 40]


def test_what_a_replica_that_went_needed_goes(log: ControlPlane, apply: Apply) -> None:
    """It is a member no longer."""
    settle(log, apply, 1, 0, 50)
    apply(ReplicasAssigned(TOPIC, 0, (1,)))
    assert log.trim(10) == 5


def test_an_outcome_stays_while_anything_names_it(log: ControlPlane, apply: Apply) -> None:
    """In whatever partition; and the numbers go on after all are gone."""
    apply(TransactionBegun(6, 7), extent(50, 6), extent(0, 6, OTHER), TransactionEnded(6, False, 1))
    for store in (1, 2):
        settle(log, apply, store, 0, 60)
    while log.trim(2):
        pass
    assert extents(log) == []
    assert named_instances(log) == {6}
    apply(TopicDeleted(OTHER))
    while log.trim(2):
        pass
    assert named_instances(log) == set()
    assert log.find_next_instance() == 7


def test_an_open_transaction_is_never_forgotten(log: ControlPlane, apply: Apply) -> None:
    """Even if all that it wrote was deleted: it can still end, and then it is gone."""
    apply(TransactionBegun(6, 7), extent(50, 6))
    apply(LogStartMoved(TOPIC, 0, 60))
    assert log.trim(10) == 6
    assert named_instances(log) == {6}
    apply(TransactionEnded(6, True, 1))
    log.trim(10)
    assert named_instances(log) == set()


def test_one_that_wrote_nothing_is_gone_when_it_ends(log: ControlPlane, apply: Apply) -> None:
    """Its number is not given again."""
    apply(*transaction(6))
    log.trim(10)
    assert named_instances(log) == {1, 2, 3, 4, 5}
    assert log.find_next_instance() == 7


def test_times_are_found_after_a_trim(log: ControlPlane, apply: Apply) -> None:
    """Above what is settled; a store that has settled less than was trimmed is asked about the rest only."""
    for store in (1, 2):
        settle(log, apply, store, 0, 30)
    apply(StoreLeft(2, ()))
    apply(StoreRebuilt(2, 2))
    before = [log.find_extent_by_time(TOPIC, 0, store, 0, 20) for store in (1, 2)]
    apply(ReplicasAssigned(TOPIC, 0, (1,)))
    assert log.trim(10) == 3
    apply(ReplicasAssigned(TOPIC, 0, (1, 2)))
    after = [log.find_extent_by_time(TOPIC, 0, store, 0, 20) for store in (1, 2)]
    assert (
        [found and found.first for found in after] == [found and found.first for found in before] == [30, 30]
    )
