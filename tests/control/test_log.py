"""A partition's log in a control plane: extents by offset and by time, bounds, leaders and their epochs."""

import threading
from uuid import UUID

import pytest

from holdfast.control.plane import EXTENTS_PER_PLAN_MAX, ControlPlane, Extent, LogBounds, Partition
from holdfast.errors import UnknownTopicOrPartition
from holdfast.store.footer import ExtentAppended, LeaderMoved, LogStartMoved, TopicCreated, TopicDeleted
from holdfast.store.store import Place
from tests.control.frames import Apply

TOPIC, NOWHERE = UUID(int=1), UUID(int=2)


@pytest.fixture
def apply(apply: Apply) -> Apply:
    """Frame 1 has made a topic of two partitions."""
    apply(TopicCreated("orders", TOPIC, [[1, 2], [2, 1]], {}), stores=(1, 2))
    return apply


def _extent(
    first: int,
    last: int,
    *,
    partition: int = 0,
    stores: tuple[int, ...] = (1,),
    time: int = 5,
    epoch: int = 0,
) -> ExtentAppended:
    return ExtentAppended(TOPIC, partition, first, last, list(stores), 100, time, epoch)


def test_extents_move_the_end_and_are_found(plane: ControlPlane, apply: Apply) -> None:
    """The extent that holds an offset comes first, with its place on each store that has it."""
    apply(_extent(0, 4, stores=(1,)), _extent(0, 3, partition=1, stores=(2, 1)), stores=(1, 2))
    apply(_extent(5, 9))
    bounds, extents = plane.find_extents(TOPIC, 0, 4, 10_000)
    assert bounds == plane.find_bounds(TOPIC, 0) == LogBounds(start=0, end=10, last_stable=10, leader_epoch=0)
    places = {1: Place(journal=1, position=2000)}
    assert extents[0] == Extent(first=0, last=4, places=places, length_bytes=100, max_timestamp=5)
    assert [extent.first for extent in extents] == [0, 5]
    # Store 2 does not hold the first extent, so the second one comes first in its body.
    other = plane.find_extents(TOPIC, 1, 0, 10_000)[1][0]
    assert other.places == {1: Place(journal=1, position=2100), 2: Place(journal=2, position=2000)}


def test_an_extent_knows_the_time_of_its_first_record(plane: ControlPlane, apply: Apply) -> None:
    """One from before that was written down has none."""
    apply(ExtentAppended(TOPIC, 0, 0, 4, [1], 100, 9, 0, -1, 7), _extent(5, 9, time=9))
    assert [each.first_timestamp for each in plane.find_extents(TOPIC, 0, 0, 10_000)[1]] == [7, -1]


def test_an_extent_lies_only_where_its_frame_was_taken(plane: ControlPlane, apply: Apply) -> None:
    """A store that failed has no place, whatever the footer planned."""
    apply(_extent(0, 4, stores=(1, 2)), stores=(1,), lost=(2,))
    assert plane.find_extents(TOPIC, 0, 0, 0)[1][0].places == {1: Place(journal=1, position=2000)}


def test_extents_are_bounded_by_bytes_but_never_none(plane: ControlPlane, apply: Apply) -> None:
    """A reader gets at least the extent that it asks for."""
    for offset in range(5):
        apply(_extent(offset, offset))

    def firsts(offset: int, bytes_max: int) -> list[int]:
        return [extent.first for extent in plane.find_extents(TOPIC, 0, offset, bytes_max)[1]]

    assert firsts(1, 250) == [1, 2, 3]
    assert firsts(1, 300) == [1, 2, 3]
    assert firsts(1, 301) == [1, 2, 3, 4]
    assert firsts(1, 0) == [1]
    assert firsts(5, 250) == []
    apply(LogStartMoved(TOPIC, 0, 2))
    assert firsts(1, 250) == [], "trimmed or not"
    assert firsts(2, 100) == [2]


def test_extents_are_bounded_by_count(plane: ControlPlane, apply: Apply) -> None:
    """Without a bound in bytes an answer has a bound all the same."""
    apply(*(_extent(offset, offset) for offset in range(EXTENTS_PER_PLAN_MAX + 1)))
    bounds, extents = plane.find_extents(TOPIC, 0, 0, 1 << 62)
    assert [extent.first for extent in extents] == list(range(EXTENTS_PER_PLAN_MAX))
    assert bounds.end == EXTENTS_PER_PLAN_MAX + 1


def test_size_is_that_of_what_can_be_read(plane: ControlPlane, apply: Apply) -> None:
    """An extent that the log start cuts counts whole; nothing is no size."""
    apply(_extent(0, 4), _extent(5, 9), _extent(10, 14), _extent(0, 4, partition=1))
    assert plane.find_size(TOPIC, 0, 1) == 300
    apply(LogStartMoved(TOPIC, 0, 7))
    assert plane.find_size(TOPIC, 0, 1) == 200
    assert [plane.find_size(TOPIC, 2, 1), plane.find_size(NOWHERE, 0, 1)] == [0, 0]


def test_extents_are_found_by_time(plane: ControlPlane, apply: Apply) -> None:
    """Timestamps need not grow with offsets: the first extent that reaches the time counts."""
    for offset, time in enumerate((30, 10, 50, 20, 50)):
        apply(_extent(offset, offset, time=time))

    def first_at(offset: int, timestamp_ms: int) -> int | None:
        extent = plane.find_extent_by_time(TOPIC, 0, 1, offset, timestamp_ms)
        return None if extent is None else extent.first

    assert [first_at(0, time) for time in (0, 30, 31, 50, 51)] == [0, 0, 2, 2, None]
    assert [first_at(3, time) for time in (0, 30, 51)] == [3, 4, None]
    assert first_at(5, 0) is None


def test_the_greatest_time_is_found(plane: ControlPlane, apply: Apply) -> None:
    """The first of several, at or after an offset."""
    for offset, time in enumerate((30, 10, 50, 20, 50)):
        apply(_extent(offset, offset, time=time))

    def latest_from(offset: int) -> int | None:
        extent = plane.find_extent_of_max_time(TOPIC, 0, 1, offset)
        return None if extent is None else extent.first

    assert [latest_from(offset) for offset in (0, 2, 3, 5)] == [2, 2, 4, None]


def test_no_time_is_found_where_there_is_no_log(plane: ControlPlane, apply: Apply) -> None:
    """An empty partition has no extents, and one that nobody knows is said to be unknown."""
    assert plane.find_extent_by_time(TOPIC, 1, 1, 0, 0) is None
    assert plane.find_extent_of_max_time(TOPIC, 1, 1, 0) is None
    for topic, partition in ((TOPIC, 2), (NOWHERE, 0)):
        with pytest.raises(UnknownTopicOrPartition):
            plane.find_extent_by_time(topic, partition, 1, 0, 0)
        with pytest.raises(UnknownTopicOrPartition):
            plane.find_extent_of_max_time(topic, partition, 1, 0)


def test_time_is_looked_for_from_the_extent_that_holds_the_offset(plane: ControlPlane, apply: Apply) -> None:
    """Extents below it are passed over, trimmed or not."""
    apply(_extent(0, 9, time=70), _extent(10, 19, time=60))
    apply(LogStartMoved(TOPIC, 0, 15))
    for _ in ("before", "after"):
        for found in (
            plane.find_extent_by_time(TOPIC, 0, 1, 15, 0),
            plane.find_extent_of_max_time(TOPIC, 0, 1, 15),
        ):
            assert found is not None
            assert found.first == 10
        plane.trim(10)


def test_leaders_move_and_epochs_end(plane: ControlPlane, apply: Apply) -> None:
    """Each epoch ends where the next begins; an epoch that never was is answered with the one before it."""
    apply(_extent(0, 4))
    apply(LeaderMoved(TOPIC, 0, 2, 1), _extent(5, 9, epoch=1))
    apply(LeaderMoved(TOPIC, 0, 1, 2))
    assert plane.find_partition(TOPIC, 0) == Partition(replicas=(1, 2), leader=1, leader_epoch=2)
    assert plane.find_bounds(TOPIC, 0).leader_epoch == 2
    ends = [plane.find_epoch_end(TOPIC, 0, epoch) for epoch in (-1, 0, 1, 2, 7)]
    assert ends == [(-1, -1), (0, 5), (1, 10), (2, 10), (2, 10)]
    assert plane.find_epoch_end(TOPIC, 1, 7) == (0, 0), "each partition has epochs of its own"


@pytest.mark.parametrize("key", [(TOPIC, 2), (TOPIC, -1), (NOWHERE, 0)])
def test_unknown_partitions_are_refused(plane: ControlPlane, apply: Apply, key: tuple[UUID, int]) -> None:
    """A reader hears Kafka's error."""
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_partition(*key)
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_bounds(*key)
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_extents(*key, 0, 100)
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_epoch_end(*key, 0)
    assert plane.find_producers(*key) == {}


def test_a_reader_sees_whole_frames(plane: ControlPlane, apply: Apply) -> None:
    """While frames are applied, bounds and extents of one answer belong together, and so do epochs and ends."""
    frames = 200
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                bounds, extents = plane.find_extents(TOPIC, 0, 0, 1 << 62)
                if [extent.last + 1 for extent in extents[-1:]] != [bounds.end] * bool(bounds.end):
                    wrong.append((bounds, extents[-1:]))
                # Each leader of partition 1 writes one record, in the frame that makes it the leader.
                epoch, end = plane.find_epoch_end(TOPIC, 1, frames)
                if end != epoch:
                    wrong.append((epoch, end))
        except BaseException as failure:
            wrong.append(failure)
            raise

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(frames):
            leads = LeaderMoved(TOPIC, 1, 1, number + 1)
            apply(_extent(number, number), leads, _extent(number, number, partition=1, epoch=number + 1))
    finally:
        done.set()
        reader.join()
    assert wrong == []


def test_a_deleted_partition_is_unknown_to_its_readers(plane: ControlPlane, apply: Apply) -> None:
    """From the very frame on."""
    apply(_extent(0, 4))
    apply(TopicDeleted(TOPIC))
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_extents(TOPIC, 0, 0, 100)
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_epoch_end(TOPIC, 0, 0)
    assert plane.find_size(TOPIC, 0, 1) == 0
    with pytest.raises(UnknownTopicOrPartition):
        plane.find_extent_by_time(TOPIC, 0, 1, 0, 0)
