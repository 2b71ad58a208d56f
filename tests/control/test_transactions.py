"""Transactions in a control plane: begun, joined, staged, ended in one step, and never torn."""

from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane, Extent, GroupOffset, OpenInstance
from holdfast.errors import CommitRefused
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.rules.transactional_id import Phase, TransactionalId
from holdfast.store.footer import (
    Change,
    ExtentAppended,
    GroupDeleted,
    GroupOffsetCommitted,
    GroupOffsetDeleted,
    GroupOffsetStaged,
    LogStartMoved,
    ProducerIdsAllotted,
    TopicCreated,
    TopicDeleted,
    TransactionalIdSet,
    TransactionBegun,
    TransactionEnded,
)
from tests.control.answers import log_answers
from tests.control.frames import Apply

TOPIC, OTHER, NOWHERE = UUID(int=1), UUID(int=2), UUID(int=3)


@pytest.fixture
def apply(apply: Apply) -> Apply:
    """Frame 1 has made two topics, one of two partitions."""
    apply(TopicCreated("orders", TOPIC, [[1], [1]], {}), TopicCreated("bills", OTHER, [[1]], {}))
    return apply


def begun(instance: int, producer_id: int = 7) -> TransactionBegun:
    return TransactionBegun(instance, producer_id)


def ended(instance: int, *, commit: bool = True) -> TransactionEnded:
    return TransactionEnded(instance, commit, 50)


def extent(
    first: int, last: int, instance: int = NO_INSTANCE, topic_id: UUID = TOPIC, partition: int = 0
) -> ExtentAppended:
    return ExtentAppended(topic_id, partition, first, last, [1], 100, 5, 0, instance)


def staged(
    instance: int, offset: int = 3, group: str = "g", topic_id: UUID = TOPIC, partition: int = 0
) -> GroupOffsetStaged:
    return GroupOffsetStaged(instance, group, topic_id, partition, offset, 1, "note")


def id_set(name: str = "t", *, before: tuple[int, int] = (0, NO_INSTANCE), **state: object) -> Change:
    fields = {
        "producer_id": 7,
        "epoch": 0,
        "timeout_ms": 60_000,
        "phase": Phase.EMPTY,
        "instance": NO_INSTANCE,
        "turn": 1,
        "previous_producer_id": -1,
        "previous_epoch": -1,
        "started_ms": -1,
    } | state
    values = [value.value if isinstance(value, Phase) else value for value in fields.values()]
    return TransactionalIdSet(name, *before, *values)  # type: ignore[arg-type]


def stable(plane: ControlPlane, topic_id: UUID = TOPIC, partition: int = 0) -> int:
    return plane.find_bounds(topic_id, partition).last_stable


def told(plane: ControlPlane, partition: int = 0) -> list[tuple[int, int, int, Outcome | None]]:
    """(first, last, instance, outcome) of all extents of a partition of TOPIC."""
    start = plane.find_bounds(TOPIC, partition).start
    _, extents = plane.find_extents(TOPIC, partition, start, 1 << 30)
    return [(each.first, each.last, each.instance, each.outcome) for each in extents]


def positions(plane: ControlPlane, group: str = "g") -> dict[tuple[str, int], int]:
    return {(each.topic, each.partition): each.offset for each in plane.find_group_offsets(group)}


@pytest.mark.parametrize("commit", [True, False])
def test_one_outcome_decides_all_partitions(plane: ControlPlane, apply: Apply, commit: bool) -> None:
    """Extents say what became of their instance, wherever they lie; one row decides."""
    apply(begun(1), extent(0, 4, 1), extent(0, 0, 1, partition=1), extent(0, 2, 1, OTHER))
    apply(extent(5, 5), extent(6, 7, 1))
    opened = [(0, 4, 1, Outcome.OPEN), (5, 5, NO_INSTANCE, None), (6, 7, 1, Outcome.OPEN)]
    assert told(plane) == opened
    apply(ended(1, commit=commit))
    outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
    assert told(plane) == [(0, 4, 1, outcome), (5, 5, NO_INSTANCE, None), (6, 7, 1, outcome)]
    assert told(plane, 1) == [(0, 0, 1, outcome)]
    by_time = plane.find_extent_by_time(OTHER, 0, 1, 0, 5)
    by_max = plane.find_extent_of_max_time(OTHER, 0, 1, 0)
    assert isinstance(by_time, Extent)
    assert by_time == by_max
    assert (by_time.instance, by_time.outcome) == (1, outcome)


def test_begun_joined_staged_and_ended_in_one_frame(plane: ControlPlane, apply: Apply) -> None:
    """In a footer's order; the next transaction of the same producer may begin there, too."""
    apply(
        begun(1),
        begun(2),
        staged(1),
        extent(0, 1, 1),
        extent(2, 2, 2),
        ended(1),
        id_set(phase=Phase.ONGOING, instance=2, turn=2),
    )
    assert told(plane) == [(0, 1, 1, Outcome.COMMITTED), (2, 2, 2, Outcome.OPEN)]
    assert stable(plane) == 2
    assert positions(plane) == {("orders", 0): 3}


def test_open_instances_of_a_partition_are_found(plane: ControlPlane, apply: Apply) -> None:
    """By producer, with the first offset that each has there; decided ones are not."""
    assert plane.find_open_instances(TOPIC, 0) == {}
    apply(begun(1, 7), begun(2, 8), extent(0, 1, 1), extent(2, 3, 2), extent(4, 4, 1))
    apply(extent(0, 0, 2, partition=1))
    assert plane.find_open_instances(TOPIC, 0) == {
        7: OpenInstance(instance=1, first_offset=0),
        8: OpenInstance(instance=2, first_offset=2),
    }
    assert plane.find_open_instances(TOPIC, 1) == {8: OpenInstance(instance=2, first_offset=0)}
    apply(ended(1))
    assert set(plane.find_open_instances(TOPIC, 0)) == {8}
    assert plane.find_open_instances(NOWHERE, 0) == {}


def test_the_partitions_of_an_open_instance_are_found(plane: ControlPlane, apply: Apply) -> None:
    """By topic name and partition; none of a decided one."""
    apply(begun(1), extent(0, 1, 1, partition=1), extent(0, 1), extent(2, 3, 1), extent(0, 0, 1, OTHER))
    assert plane.find_instance_partitions(1) == [(OTHER, 0, 0), (TOPIC, 0, 2), (TOPIC, 1, 0)]
    apply(ended(1))
    assert plane.find_instance_partitions(1) == []
    assert plane.find_instance_partitions(99) == []


def test_instances_are_numbered_on(plane: ControlPlane, apply: Apply) -> None:
    """From 1, whatever became of those before."""
    assert plane.find_next_instance() == 1
    apply(begun(1), begun(2), ended(2))
    assert plane.find_next_instance() == 3


def test_the_oldest_open_instance_holds_the_stable_offset(plane: ControlPlane, apply: Apply) -> None:
    """In each partition by itself, and until it is decided, in whatever order the others are."""
    apply(extent(0, 1), begun(1, 7), begun(2, 8), begun(3, 9))
    apply(extent(2, 3, 1), extent(4, 4), extent(5, 5, 2), extent(6, 6, 3), extent(0, 0, 3, partition=1))
    assert [stable(plane), stable(plane, partition=1)] == [2, 0]
    apply(ended(2))
    assert stable(plane) == 2
    apply(ended(1, commit=False))
    assert stable(plane) == 6
    apply(extent(7, 7, 3))
    assert stable(plane) == 6, "where it begins, not where it goes on"
    apply(ended(3))
    assert [stable(plane), stable(plane, partition=1)] == [8, 1]


def test_nothing_below_the_log_start_is_waited_for(plane: ControlPlane, apply: Apply) -> None:
    """DeleteRecords may pass the beginning of an open transaction, or all of it."""
    apply(begun(1), extent(0, 3, 1), extent(4, 5))
    apply(LogStartMoved(TOPIC, 0, 2))
    assert stable(plane) == 2
    apply(LogStartMoved(TOPIC, 0, 6))
    assert stable(plane) == 6
    apply(extent(6, 6))
    assert (stable(plane), told(plane)) == (6, [(6, 6, NO_INSTANCE, None)])
    apply(ended(1))
    assert stable(plane) == 7


def test_staged_positions_count_with_the_commit(plane: ControlPlane, apply: Apply) -> None:
    """At its time, in the same frame; until then they are only known to be on their way."""
    apply(GroupOffsetCommitted("g", TOPIC, 0, 1, 0, "", 9), begun(1))
    apply(staged(1, 3), staged(1, 4, partition=1), staged(1, 5, "h", OTHER))
    apply(staged(1, 6))
    assert plane.find_staged("g") == {(TOPIC, 0), (TOPIC, 1)}
    assert plane.find_staged("h") == {(OTHER, 0)}
    assert plane.find_staged("i") == set()
    assert positions(plane) == {("orders", 0): 1}
    apply(ended(1))
    assert positions(plane) == {("orders", 0): 6, ("orders", 1): 4}
    assert plane.find_group_offsets("h") == [
        GroupOffset(
            topic_id=OTHER,
            topic="bills",
            partition=0,
            offset=5,
            leader_epoch=1,
            metadata="note",
            committed_ms=50,
        )
    ]
    assert plane.find_staged("g") == plane.find_staged("h") == set()


def test_staged_positions_are_dropped_with_the_abort(plane: ControlPlane, apply: Apply) -> None:
    """Only those of the instance; what another has staged for the same partition waits for it."""
    apply(begun(1, 7), begun(2, 8), staged(1, 3), staged(2, 4))
    apply(ended(1, commit=False))
    assert (positions(plane), plane.find_staged("g")) == ({}, {(TOPIC, 0)})
    apply(ended(2))
    assert (positions(plane), plane.find_staged("g")) == ({("orders", 0): 4}, set())


def test_a_position_that_was_committed_since_is_newer(plane: ControlPlane, apply: Apply) -> None:
    """As in Kafka: what counts is the order of writing, not of deciding. Until then it is still on its way."""
    apply(begun(1), staged(1, 5), staged(1, 6, partition=1), staged(1, 8, "h"))
    apply(GroupOffsetCommitted("g", TOPIC, 0, 7, 0, "", 9))
    assert plane.find_staged("g") == {(TOPIC, 0), (TOPIC, 1)}
    apply(ended(1))
    assert positions(plane) == {("orders", 0): 7, ("orders", 1): 6}
    assert positions(plane, "h") == {("orders", 0): 8}
    assert plane.find_staged("g") == set()


def test_a_position_staged_once_more_is_the_newest(plane: ControlPlane, apply: Apply) -> None:
    """After one that was committed in between."""
    apply(begun(1), staged(1, 5))
    apply(GroupOffsetCommitted("g", TOPIC, 0, 7, 0, "", 9))
    apply(staged(1, 3), ended(1))
    assert positions(plane) == {("orders", 0): 3}


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_of_two_transactions_the_later_position_counts(
    plane: ControlPlane, apply: Apply, order: tuple[int, int]
) -> None:
    """Whichever is committed first; one that is aborted outdates nothing."""
    apply(begun(1, 7), begun(2, 8), begun(3, 9), staged(1, 5), staged(2, 4), staged(3, 99))
    apply(ended(3, commit=False))
    apply(ended(order[0]))
    apply(ended(order[1]))
    assert positions(plane) == {("orders", 0): 4}


def test_a_position_staged_again_is_younger_than_another_transactions(
    plane: ControlPlane, apply: Apply
) -> None:
    """The last time counts."""
    apply(begun(1, 7), begun(2, 8), staged(1, 5), staged(2, 4), staged(1, 6))
    apply(ended(1))
    apply(ended(2))
    assert positions(plane) == {("orders", 0): 6}


def test_a_deleted_group_drops_what_is_staged_for_it(plane: ControlPlane, apply: Apply) -> None:
    """The commit does not bring it back."""
    apply(begun(1), staged(1), staged(1, group="h"))
    apply(GroupDeleted("g"))
    assert plane.find_staged("g") == set()
    apply(ended(1))
    assert (positions(plane), positions(plane, "h")) == ({}, {("orders", 0): 3})


def test_a_deleted_position_does_not_come_back(plane: ControlPlane, apply: Apply) -> None:
    """Not even if the transaction that staged one for it is committed in the same frame."""
    apply(begun(1), staged(1), staged(1, group="h"))
    apply(GroupOffsetDeleted("g", TOPIC, 0), ended(1))
    assert plane.find_staged("g") == set()
    assert (positions(plane), positions(plane, "h")) == ({}, {("orders", 0): 3})


def test_a_deleted_topic_drops_what_is_open_in_it(plane: ControlPlane, apply: Apply) -> None:
    """Elsewhere the transaction goes on; a new topic of the same name has nothing of it."""
    apply(begun(1), extent(0, 3, 1), extent(0, 0, 1, OTHER), staged(1), staged(1, 4, topic_id=OTHER))
    apply(TopicDeleted(TOPIC), TopicCreated("orders", NOWHERE, [[1]], {}))
    assert plane.find_instance_partitions(1) == [(OTHER, 0, 0)]
    assert plane.find_open_instances(TOPIC, 0) == plane.find_open_instances(NOWHERE, 0) == {}
    assert plane.find_staged("g") == {(OTHER, 0)}
    assert stable(plane, NOWHERE) == 0
    with pytest.raises(CommitRefused, match="does not exist"):
        apply(extent(4, 4, 1))
    apply(extent(0, 0, 1, NOWHERE), ended(1))
    assert positions(plane) == {("bills", 0): 4}
    assert stable(plane, NOWHERE) == 1


OPEN_AND_DECIDED: list[Change] = [begun(1), begun(2), extent(0, 0, 1), extent(1, 1, 2), staged(2), ended(1)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (extent(2, 2, 1), "instance 1 is not open"),
        (extent(2, 2, 9), "instance 9 is not open"),
        (staged(1), "instance 1 is not open"),
        (staged(9), "instance 9 is not open"),
        (staged(2, topic_id=NOWHERE), "does not exist"),
        (ended(1), "instance 1 is not open"),
        (ended(1, commit=False), "instance 1 is not open"),
        (ended(9), "instance 9 is not open"),
        (begun(1), "instance 1 has begun already"),
        (begun(2), "instance 2 has begun already"),
        (id_set(before=(1, NO_INSTANCE)), "has moved on"),
    ],
    ids=[
        "an extent of a decided instance",
        "an extent of an unknown instance",
        "a position of a decided instance",
        "a position of an unknown instance",
        "a position in an unknown topic",
        "an outcome once more",
        "the other outcome",
        "an outcome of an unknown instance",
        "a decided instance begun again",
        "an open instance begun again",
        "an id that was another before",
    ],
)
def test_what_no_longer_fits_takes_the_whole_frame_along(
    plane: ControlPlane, apply: Apply, change: Change, why: str
) -> None:
    """All or nothing: what stands before it in the frame has no effect."""
    apply(*OPEN_AND_DECIDED)
    frame, *before = log_answers(plane)
    good: list[Change] = [begun(3), extent(0, 0, 3, partition=1), staged(3), staged(2, 9), id_set("another")]
    if not isinstance(change, GroupOffsetStaged):
        good.append(ended(2))
    assert isinstance(frame, int)
    with pytest.raises(CommitRefused, match=why):
        apply(*good, change)
    assert log_answers(plane) == [frame + 1, *before]
    apply(extent(2, 2, 2), ended(2))
    assert positions(plane) == {("orders", 0): 3}


def test_an_id_is_what_was_set_last(plane: ControlPlane, apply: Apply) -> None:
    """All of its state comes back, by name."""
    apply(id_set("b"), id_set("a", producer_id=8, epoch=2))
    apply(
        id_set(
            "b",
            before=(1, NO_INSTANCE),
            epoch=1,
            phase=Phase.ONGOING,
            instance=5,
            turn=4,
            previous_producer_id=6,
            previous_epoch=3,
            started_ms=77,
        )
    )
    expected = TransactionalId(
        producer_id=7,
        epoch=1,
        timeout_ms=60_000,
        phase=Phase.ONGOING,
        instance=5,
        turn=4,
        previous_producer_id=6,
        previous_epoch=3,
        started_ms=77,
    )
    assert plane.find_transactional_id("b") == expected
    assert list(plane.list_transactional_ids()) == ["a", "b"]
    assert plane.list_transactional_ids()["b"] == expected
    assert plane.find_transactional_id("c") is None


@pytest.mark.parametrize("before", [(0, NO_INSTANCE), (1, NO_INSTANCE), (2, NO_INSTANCE), (2, 6), (3, 5)])
def test_an_id_that_has_moved_on_is_not_changed(
    plane: ControlPlane, apply: Apply, before: tuple[int, int]
) -> None:
    """Turn and open instance must be those that the commit was planned on: a new id is in turn 0."""
    apply(id_set())
    apply(id_set(before=(1, NO_INSTANCE), phase=Phase.ONGOING, instance=5, turn=2))
    with pytest.raises(CommitRefused, match="'t' has moved on"):
        apply(ProducerIdsAllotted(99), id_set(before=before, turn=9))
    assert plane.find_next_producer_id() == 1
    apply(id_set(before=(2, 5), turn=3))
    state = plane.find_transactional_id("t")
    assert state is not None
    assert state.turn == 3


def test_a_frame_that_comes_again_changes_nothing(plane: ControlPlane) -> None:
    """A replay may begin too early, also in the middle of a transaction."""
    frames: list[list[Change]] = [
        [TopicCreated("orders", TOPIC, [[1]], {}), begun(1), extent(0, 0, 1), staged(1)],
        [ended(1)],
        [begun(2), extent(1, 1, 2), staged(2, 9)],
    ]
    for first in (1, 1, 2, 3):
        replayed = Apply(plane, first=first)
        for changes in frames[first - 1 :]:
            replayed(*changes)
    assert told(plane) == [(0, 0, 1, Outcome.COMMITTED), (1, 1, 2, Outcome.OPEN)]
    assert (positions(plane), plane.find_staged("g")) == ({("orders", 0): 3}, {(TOPIC, 0)})
