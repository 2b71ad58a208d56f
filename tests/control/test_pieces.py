"""The contract: how a log is read of which some is settled, on the store that is asked."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest

from holdfast.control.plane import EXTENTS_PER_PLAN_MAX, ControlPlane, Extent
from holdfast.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from holdfast.rules.transaction import Outcome
from holdfast.store.footer import (
    ExtentAppended,
    LogStartMoved,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.replica_changes import (
    StoreFenced,
)
from tests.control.frames import Apply
from tests.control.manifests import TOPIC, published, segment, write_five_extents

OTHER = UUID(int=2)


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """A partition with five extents."""
    write_five_extents(apply)
    return plane


def pieces(plane: ControlPlane, offset: int, bytes_max: int = 1 << 30, store: int = 1) -> list[str | int]:
    """Segments by file, extents by first offset."""
    _, found = plane.find_pieces(TOPIC, 0, store, offset, bytes_max)
    return [piece.first if isinstance(piece, Extent) else piece.file for piece in found]


def test_pieces_are_segments_then_extents(log: ControlPlane, apply: Apply) -> None:
    """Of the store that is asked, from the one that covers the offset on."""
    apply(published(log, 1, segment(0, 10), segment(10, 30)))
    assert pieces(log, 0) == ["0-10", "10-30", 30, 40]
    assert pieces(log, 0, store=2) == [0, 10, 20, 30, 40]
    assert pieces(log, 9) == ["0-10", "10-30", 30, 40]
    assert pieces(log, 10) == ["10-30", 30, 40]
    assert pieces(log, 29) == ["10-30", 30, 40]
    assert pieces(log, 30) == [30, 40]
    assert pieces(log, 49) == [40]
    assert pieces(log, 50) == pieces(log, -1) == []
    bounds, _ = log.find_pieces(TOPIC, 0, 1, 50, 1)
    assert bounds == log.find_bounds(TOPIC, 0)
    assert [found.file for found in log.find_segments(TOPIC, 0, 1, 10)] == ["10-30"]
    assert log.find_segments(TOPIC, 0, 1, 30) == []


def test_pieces_end_with_enough_bytes(log: ControlPlane, apply: Apply) -> None:
    """A segment that is entered in the middle, or empty, may hold nothing for the reader: another one follows."""
    apply(published(log, 1, segment(0, 10), segment(10, 20, length_bytes=0), segment(20, 30)))
    assert pieces(log, 0, 0) == pieces(log, 0, 50) == ["0-10"]
    assert pieces(log, 0, 51) == ["0-10", "10-20", "20-30"]
    assert pieces(log, 1, 1) == ["0-10", "10-20", "20-30"]
    assert pieces(log, 10, 50) == ["10-20", "20-30"]
    assert pieces(log, 25, 50) == ["20-30", 30]
    assert pieces(log, 0, 101) == ["0-10", "10-20", "20-30", 30]
    assert pieces(log, 35, 1) == [30]


def test_a_plan_has_a_bounded_number_of_pieces(log: ControlPlane, apply: Apply) -> None:
    """However small they are."""
    apply(*(ExtentAppended(TOPIC, 0, first, first, [1, 2], 1, 1, 0) for first in range(50, 1050)))
    apply(published(log, 1, *(segment(first, first + 1, length_bytes=0) for first in range(300))))
    assert pieces(log, 0) == [f"{first}-{first + 1}" for first in range(EXTENTS_PER_PLAN_MAX)]
    assert len(pieces(log, 290)) == EXTENTS_PER_PLAN_MAX
    assert pieces(log, 290)[9:12] == ["299-300", 300, 301]


def test_the_log_may_begin_inside_of_a_segment(log: ControlPlane, apply: Apply) -> None:
    """That one stays whole; those below go at once, whenever the rest is trimmed."""
    apply(published(log, 1, segment(0, 10), segment(10, 30)))
    apply(LogStartMoved(TOPIC, 0, 15))
    assert log.list_files(1) == {"10-30"}
    assert pieces(log, 15) == ["10-30", 30, 40]
    assert pieces(log, 14) == []
    assert log.find_size(TOPIC, 0, 1) == 50 + 200
    apply(LogStartMoved(TOPIC, 0, 30))
    assert log.list_files(1) == set()
    assert pieces(log, 30) == [30, 40]


def test_sizes_are_those_of_the_store(log: ControlPlane, apply: Apply) -> None:
    """Segments, then extents; nothing on a store that has no replica."""
    apply(published(log, 1, segment(0, 30, length_bytes=7)))
    assert [log.find_size(TOPIC, 0, store) for store in (1, 2, 3)] == [207, 500, 0]
    assert log.find_size(OTHER, 0, 1) == 0


def test_times_are_found_in_segments_too(log: ControlPlane, apply: Apply) -> None:
    """The first piece that reaches the time, and the first of the greatest, from an offset on."""
    apply(published(log, 1, segment(0, 10, time=12), segment(10, 20, time=3), segment(20, 30, time=40)))

    def by_time(offset: int, time: int, store: int = 1) -> int | None:
        found = log.find_extent_by_time(TOPIC, 0, store, offset, time)
        return None if found is None else found.first

    def latest(offset: int, store: int = 1) -> int | None:
        found = log.find_extent_of_max_time(TOPIC, 0, store, offset)
        return None if found is None else found.first

    assert [by_time(0, time) for time in (0, 12, 13, 40, 41)] == [0, 0, 20, 20, None]
    assert [by_time(offset, 1) for offset in (9, 10, 30, 49)] == [0, 10, 30, 40]
    assert [by_time(0, time, 2) for time in (0, 13, 40, 41)] == [0, 20, 40, None]
    assert [latest(offset) for offset in (0, 29, 30, 50)] == [20, 20, 40, None]
    assert latest(0, 2) == 40


def test_only_a_replica_serves(log: ControlPlane, apply: Apply) -> None:
    """Not a store without one, nor one that is fenced; an unknown partition is another matter."""
    log.add_store(3)
    apply(StoreFenced(2))
    for store in (2, 3, 4):
        served: list[Callable[[], object]] = [
            partial(log.find_pieces, TOPIC, 0, store, 0, 1),
            partial(log.find_extent_by_time, TOPIC, 0, store, 0, 0),
            partial(log.find_extent_of_max_time, TOPIC, 0, store, 0),
        ]
        for ask in served:
            with pytest.raises(NotLeaderOrFollower):
                ask()
    unknown: list[Callable[[], object]] = [
        partial(log.find_pieces, OTHER, 0, 1, 0, 1),
        partial(log.find_removal, OTHER, 0),
        partial(log.find_held, TOPIC, 1, 1),
    ]
    for ask in unknown:
        with pytest.raises(UnknownTopicOrPartition):
            ask()
    assert log.find_held(TOPIC, 0, 2) == 50
    with pytest.raises(NotLeaderOrFollower):
        log.find_held(TOPIC, 0, 3)


def test_pieces_tell_what_became_of_transactions(log: ControlPlane, apply: Apply) -> None:
    """As extents do."""
    apply(TransactionBegun(1, 7), ExtentAppended(TOPIC, 0, 50, 59, [1, 2], 100, 5, 0, 1))
    apply(TransactionEnded(1, False, 1))
    apply(published(log, 1, segment(0, 50)))
    _, found = log.find_pieces(TOPIC, 0, 1, 0, 1 << 30)
    assert isinstance(found[-1], Extent)
    assert (found[-1].instance, found[-1].outcome) == (1, Outcome.ABORTED)
