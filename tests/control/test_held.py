"""The contract: what a store holds when it fails and while it comes back, to the offset."""

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import StorePhase
from holdfast.errors import CommitRefused
from holdfast.store.footer import LogStartMoved, PartitionsAdded
from holdfast.store.replica_changes import (
    HeldTo,
    StoreFenced,
    StoreJoined,
    StoreJoining,
    StoreLeft,
    StoreRebuilt,
)
from holdfast.store.store import CARRIED, Place
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


def test_a_store_in_sync_holds_all(log: ControlPlane, apply: Apply) -> None:
    """Whatever the log end is."""
    assert held(log) == [30, 10]
    assert log.list_behind(2) == []
    apply(extent(30, 1, 2), stores=(1, 2))
    assert raw_held(log) == [(40, None), (10, None)]


def test_a_lost_store_holds_what_came_before_the_frame(log: ControlPlane, apply: Apply) -> None:
    """Not the frame that it failed to take, of which the other partition has nothing."""
    apply(extent(30, 1, 2), extent(40, 1, 2), lost=(2,))
    assert phases(log) == {1: IN_SYNC, 2: LOST}
    assert held(log) == [30, 10]
    assert log.list_behind(2) == [HeldTo(TOPIC, 0, 30)]
    leave(log, apply)
    assert phases(log)[2] is AWAY
    apply(extent(50, 1), extent(10, 1, partition=1))
    assert held(log) == [30, 10]
    assert log.list_behind(2) == [HeldTo(TOPIC, 0, 30), HeldTo(TOPIC, 1, 10)]
    assert held(log, 1) == [60, 20]


def test_a_replay_finds_what_the_lost_store_held(log: ControlPlane, apply: Apply) -> None:
    """The frames do not say that it failed to take one; the next one says what it held."""
    apply(extent(30, 1, 2))
    apply(StoreLeft(2, (HeldTo(TOPIC, 0, 30),)))
    assert raw_held(log) == [(30, None), (10, None)]


def test_a_frame_that_is_refused_loses_the_store_all_the_same(log: ControlPlane, apply: Apply) -> None:
    """It is not there, so it is not missed either."""
    with pytest.raises(CommitRefused):
        apply(extent(30, 1, 2), extent(30, 1, 2), lost=(2,))
    assert phases(log)[2] is LOST
    assert held(log) == [30, 10]
    assert log.find_bounds(TOPIC, 0).end == 30


def test_a_topic_that_is_new_in_the_frame_is_missed_whole(log: ControlPlane, apply: Apply) -> None:
    """From its first offset on."""
    apply(PartitionsAdded(TOPIC, 2, [[1, 2]]), extent(0, 1, 2, partition=2), lost=(2,))
    assert log.find_held(TOPIC, 2, 2) == 0


def test_a_store_dropped_by_recovery_holds_what_has_a_place(log: ControlPlane, apply: Apply) -> None:
    """It may have missed several frames, all of them the newest."""
    apply(extent(30, 1, 2))
    apply(extent(40, 1, 2), extent(10, 1, 2, partition=1))
    log.drop_stores([2])
    assert phases(log)[2] is LOST
    assert held(log) == [30, 10]
    leave(log, apply)
    assert raw_held(log) == [(30, None), (10, None)]
    log.drop_stores([2])
    assert phases(log)[2] is AWAY, "what is not given frames cannot fail to take one"


def test_what_is_settled_is_held_wherever_the_extents_lie(log: ControlPlane, apply: Apply) -> None:
    """A replay that has no frame of the store still knows of its segments."""
    apply(published(log, 2, segment(0, 30)))
    apply(extent(30, 1, 2))
    log.drop_stores([2])
    assert held(log) == [30, 10]
    apply(StoreLeft(2, None))
    log.drop_stores([1])
    assert log.find_held(TOPIC, 0, 1) == 40


def test_what_is_settled_is_held_whatever_a_frame_says(log: ControlPlane, apply: Apply) -> None:
    """A manifest that was published cannot be taken back by a word."""
    apply(published(log, 2, segment(0, 30)))
    apply(StoreLeft(2, (HeldTo(TOPIC, 0, 20),)))
    assert held(log) == [30, 10]


def test_a_frame_cannot_say_that_a_store_holds_more(log: ControlPlane, apply: Apply) -> None:
    """One that lacks something lacks it, whatever is said when it leaves."""
    apply(StoreFenced(2))
    apply(StoreRebuilt(2, 2))
    apply(StoreLeft(2, (HeldTo(TOPIC, 0, 20),)))
    assert held(log) == [0, 0]


def test_what_was_guessed_of_a_store_away_gives_way_to_what_is_said(log: ControlPlane, apply: Apply) -> None:
    """Its places may be unknown to a replay; a frame that came later knew them."""
    apply(extent(30, 1, 2))
    log.drop_stores([2])
    apply(StoreLeft(2, None))
    assert held(log) == [30, 10]
    apply(StoreLeft(2, (HeldTo(TOPIC, 0, 40), HeldTo(TOPIC, 1, 5))))
    assert held(log) == [40, 5]


def test_a_reader_is_told_of_no_extent_that_is_copied_in_part(log: ControlPlane, apply: Apply) -> None:
    """A peer's segment may end in the middle of one."""
    apply(StoreFenced(2))
    apply(StoreRebuilt(2, 2))
    apply(published(log, 2, segment(0, 15)))
    assert held(log)[0] == 15
    assert [piece.end for piece in log.find_pieces(TOPIC, 0, 2, 0, 1 << 30)[1]] == [15]


def test_a_footer_from_before_says_nothing_and_places_decide(log: ControlPlane, apply: Apply) -> None:
    """Such a store missed the frame before, which has no place on it."""
    apply(extent(30, 1, 2))
    apply(StoreLeft(2, None))
    assert phases(log)[2] is AWAY
    assert held(log) == [30, 10]


def test_a_store_that_comes_back_is_given_what_it_missed(log: ControlPlane, apply: Apply) -> None:
    """First every new frame, then what lies between; then it is in sync."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(extent(40, 1))
    apply(StoreJoining(2, 1))
    assert phases(log)[2] is JOINING
    assert log.find_in_sync() == {1}
    assert raw_held(log) == [(30, 50), (10, 10)]
    assert [log.find_partition(TOPIC, number).joining for number in (0, 1)] == [(2,), (2,)]
    apply(extent(50, 1, 2), extent(10, 1, 2, partition=1), stores=(1, 2))
    assert held(log) == [30, 20], "of the second partition it lacked nothing"
    with pytest.raises(CommitRefused, match="lacks something of 1 partitions"):
        apply(StoreJoined(2))
    apply(carried(log, 2, 39), stores=(1, 2))
    assert held(log) == [40, 20]
    with pytest.raises(CommitRefused, match="lacks something of 1 partitions"):
        apply(StoreJoined(2))
    apply(carried(log, 2, 49, number=1), stores=(1, 2))
    assert held(log) == [60, 20]
    apply(StoreJoined(2), stores=(1, 2))
    assert log.find_in_sync() == {1, 2}
    assert raw_held(log) == [(60, None), (20, None)]
    assert log.list_topics()[0].partitions[0].joining == ()
    _, extents = log.find_extents(TOPIC, 0, 30, 1 << 30)
    assert [each.places[2] for each in extents] == [
        Place(journal=CARRIED, position=0),
        Place(journal=CARRIED + 1, position=0),
        Place(journal=2, position=8000),
    ]


def test_what_is_carried_after_a_hole_is_not_held(log: ControlPlane, apply: Apply) -> None:
    """Until the hole is filled; within one change the order is that of the offsets."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(extent(40, 1), extent(50, 1))
    apply(StoreJoining(2, 1))
    apply(carried(log, 2, 49))
    assert held(log)[0] == 30
    apply(carried(log, 2, 59, 39, 49))
    assert held(log)[0] == 60


def test_the_log_start_closes_holes(log: ControlPlane, apply: Apply) -> None:
    """What was deleted need not be copied."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(extent(40, 1))
    apply(StoreJoining(2, 1))
    apply(LogStartMoved(TOPIC, 0, 45))
    assert held(log)[0] == 45
    apply(carried(log, 2, 49))
    apply(StoreJoined(2))
    apply(StoreLeft(2, ()))
    apply(extent(50, 1), LogStartMoved(TOPIC, 0, 60))
    apply(StoreJoining(2, 1))
    apply(StoreJoined(2))
    assert held(log)[0] == 60


def test_a_joining_store_that_is_lost_keeps_what_it_had(log: ControlPlane, apply: Apply) -> None:
    """With a hole: what lies below it. Without: what came before the frame that it failed to take."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(StoreJoining(2, 1))
    apply(extent(40, 1, 2), extent(10, 1, 2, partition=1), stores=(1, 2))
    apply(extent(50, 1, 2), extent(20, 1, 2, partition=1), lost=(2,))
    assert phases(log)[2] is LOST
    assert raw_held(log) == [(30, None), (20, None)]
    leave(log, apply)
    assert raw_held(log) == [(30, None), (20, None)]


def test_what_came_after_a_hole_is_copied_again(log: ControlPlane, apply: Apply) -> None:
    """Nobody is told that it lies there: who copies what is missing would leave it out, and never come to an end."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(StoreJoining(2, 1))
    apply(extent(40, 1, 2), stores=(1, 2))
    assert on_second(log) == [0, 10, 20, 40]
    apply(extent(50, 1, 2), lost=(2,))
    leave(log, apply)
    assert on_second(log) == [0, 10, 20]
    apply(StoreJoining(2, 1))
    apply(extent(60, 1, 2), stores=(1, 2))
    assert on_second(log) == [0, 10, 20, 60]
    apply(carried(log, 2, 39))
    assert on_second(log) == [0, 10, 20, 30, 60]
    apply(carried(log, 2, 49, 59))
    apply(StoreJoined(2))
    assert on_second(log) == [0, 10, 20, 30, 40, 50, 60]
    assert (log.find_oldest_journal(2), log.find_carried(2)) == (2, {CARRIED})
    apply(published(log, 2, segment(0, 40)))
    assert on_second(log) == [40, 50, 60], "segments hold the rest"


def on_second(plane: ControlPlane) -> list[int]:
    """The extents that have a place on store 2, by their first offset."""
    _, extents = plane.find_extents(TOPIC, 0, 0, 1 << 30)
    return [each.first for each in extents if 2 in each.places]


def test_a_replay_finds_what_the_joining_store_held(log: ControlPlane, apply: Apply) -> None:
    """The same frames, of which none says what was lost before the last one does."""
    apply(extent(30, 1, 2))
    apply(StoreLeft(2, (HeldTo(TOPIC, 0, 30),)))
    apply(StoreJoining(2, 1))
    apply(extent(40, 1, 2), extent(10, 1, 2, partition=1))
    apply(extent(50, 1, 2), extent(20, 1, 2, partition=1))
    apply(StoreLeft(2, (HeldTo(TOPIC, 0, 30), HeldTo(TOPIC, 1, 20))))
    assert raw_held(log) == [(30, None), (20, None)]


def test_the_frame_in_which_a_store_joins_may_be_the_one_that_it_loses(
    log: ControlPlane, apply: Apply
) -> None:
    """A replay does not know that: the change fits in both, and the next frame says the rest."""
    apply(StoreLeft(2, ()))
    apply(StoreJoining(2, 1))
    apply(extent(30, 1, 2), StoreJoined(2), lost=(2,))
    assert phases(log)[2] is LOST
    assert held(log) == [30, 10]


def test_a_reader_is_told_of_nothing_that_a_store_lacks(log: ControlPlane, apply: Apply) -> None:
    """Pieces end where the hole begins, though others have what follows."""
    apply(extent(30, 1, 2), lost=(2,))
    leave(log, apply)
    apply(extent(40, 1))
    apply(StoreJoining(2, 1))
    apply(extent(50, 1, 2), stores=(1, 2))

    def firsts(offset: int, store: int) -> list[int]:
        return [piece.first for piece in log.find_pieces(TOPIC, 0, store, offset, 1 << 30)[1]]

    assert firsts(0, 1) == [0, 10, 20, 30, 40, 50]
    assert firsts(0, 2) == [0, 10, 20]
    assert firsts(30, 2) == firsts(50, 2) == []
    apply(carried(log, 2, 39, 49))
    assert firsts(0, 2) == [0, 10, 20, 30, 40, 50]
