"""Frames that were refused when they were new are told from those that counted."""

from holdfast.keeper.void_frames import find_void
from holdfast.store.replica_changes import AddedSegment, KeeperLeased, ReplicasAssigned
from tests.keeper.ledgers import TOPIC, Told


def segment(file: str) -> tuple[AddedSegment, ...]:
    return (AddedSegment(0, 10, file, 10, 5, 1, -1, 0),)


def test_nothing_is_void_where_numbers_go_up() -> None:
    """Other stores count for themselves, and so do later lives."""
    told = Told()
    for end in (10, 20):
        told.clean(1, end)
        told.clean(2, end)
    told.begin_life(1)
    told.clean(1, 10)
    assert find_void(told.frames) == frozenset()


def test_a_generation_that_is_given_again() -> None:
    """The first time did not count; nor did what built on it."""
    told = Told()
    told.clean(1, 10)
    refused = [told.clean(1, 20), told.clean(1, 30)]
    again = told.clean(1, 40)
    told.doctor(again, generation=2)
    assert find_void(told.frames) == frozenset(refused)


def test_a_lease_that_is_given_again() -> None:
    """Likewise."""
    told = Told()
    refused = told.say(KeeperLeased(1, 2))
    told.say(KeeperLeased(2, 2))
    told.say(KeeperLeased(1, 2))
    assert find_void(told.frames) == frozenset({refused})


def test_what_was_built_upon_did_count() -> None:
    """If its segment gave way to another one later, the second time was wrong, and the ledger finds that."""
    told = Told()
    first = told.clean(1, 10)
    told.doctor(first, added=segment("a.log"))
    second = told.clean(1, 10)
    told.doctor(second, generation=1, added=segment("b.log"), removed=("a.log",))
    assert find_void(told.frames) == frozenset()
    found = told.check()
    assert found is not None
    assert (found.frame, found.why) == (second, "published generation 1 after 1")


def test_a_replica_that_left_and_came_back_counts_anew() -> None:
    """Its generations begin with 1 again, in the same life of its store."""
    told = Told()
    told.clean(1, 10)
    told.clean(2, 10)
    told.say(ReplicasAssigned(TOPIC, 0, (2, 3)))
    told.say(ReplicasAssigned(TOPIC, 0, (1, 2, 3)))
    told.begin_anew(1)
    told.clean(1, 10)
    assert find_void(told.frames) == frozenset()
    assert told.check() is None
