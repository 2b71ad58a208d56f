"""The contract: all of several replicas at one moment."""

import pytest

from holdfast.control.plane import ControlPlane, Extent
from holdfast.errors import NotLeaderOrFollower, ReadingRefused, UnknownTopicOrPartition
from holdfast.store.footer import ExtentAppended, LogStartMoved, TransactionBegun
from holdfast.store.replica_changes import StoreFenced
from tests.control.frames import Apply
from tests.control.manifests import TOPIC, published, segment, write_five_extents


@pytest.fixture
def log(plane: ControlPlane, apply: Apply) -> ControlPlane:
    """A partition with five extents."""
    write_five_extents(apply)
    return plane


def logs(plane: ControlPlane, *stores: int, extents_max: int = 1000) -> list[list[str | int]]:
    """Of each store, segments by file and extents by first offset."""
    found = plane.find_logs([(TOPIC, 0, store) for store in stores], extents_max)
    return [
        [piece.first if isinstance(piece, Extent) else piece.file for piece in pieces] for _, pieces in found
    ]


def test_all_of_each_replica(log: ControlPlane, apply: Apply) -> None:
    """Segments, then extents above, from the log start on; each replica its own."""
    apply(published(log, 1, segment(0, 10), segment(10, 30)))
    assert logs(log, 1, 2) == [["0-10", "10-30", 30, 40], [0, 10, 20, 30, 40]]
    apply(LogStartMoved(TOPIC, 0, 15))
    assert logs(log, 2, 1) == [[10, 20, 30, 40], ["10-30", 30, 40]]
    assert [bounds for bounds, _ in log.find_logs([(TOPIC, 0, 1)], 9)] == [log.find_bounds(TOPIC, 0)]
    assert log.find_logs([], 0) == []


def test_however_many_there_are(log: ControlPlane, apply: Apply) -> None:
    """No page ends it, but the bound does."""
    apply(*(ExtentAppended(TOPIC, 0, first, first, [1, 2], 1, 1, 0) for first in range(50, 1050)))
    assert logs(log, 1, extents_max=1005) == [[*range(0, 50, 10), *range(50, 1050)]]
    with pytest.raises(ReadingRefused, match="keeper run"):
        logs(log, 1, extents_max=1004)
    with pytest.raises(ReadingRefused):
        logs(log, 1, 2, extents_max=1005)


def test_what_is_open_is_there(log: ControlPlane, apply: Apply) -> None:
    """Whoever reads decides what to leave out, by the bounds of the same moment."""
    apply(TransactionBegun(1, 7), ExtentAppended(TOPIC, 0, 50, 59, [1, 2], 100, 1, 0, 1))
    ((bounds, pieces),) = log.find_logs([(TOPIC, 0, 1)], 9)
    assert (bounds.last_stable, bounds.end, pieces[-1].end) == (50, 60, 60)


def test_refusals(log: ControlPlane, apply: Apply) -> None:
    """As for who reads on from an offset."""
    with pytest.raises(NotLeaderOrFollower):
        logs(log, 3)
    with pytest.raises(UnknownTopicOrPartition):
        log.find_logs([(TOPIC, 1, 1)], 9)
    apply(StoreFenced(2))
    with pytest.raises(NotLeaderOrFollower):
        logs(log, 2)
