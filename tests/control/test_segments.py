"""The contract: segments, and what refuses a manifest."""

from typing import Any
from uuid import UUID

import pytest

from holdfast.control.plane import ControlPlane
from holdfast.control.replicas import Grant, Segment
from holdfast.errors import CommitRefused
from holdfast.rules.grace import Coverage
from holdfast.rules.removal import Cleaned, Removable
from holdfast.store.footer import (
    ExtentAppended,
    LogStartMoved,
    TopicCreated,
    TopicDeleted,
    TransactionBegun,
    TransactionEnded,
)
from holdfast.store.replica_changes import (
    AddedSegment,
    KeeperLeased,
    SegmentsPublished,
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


def test_a_segment_is_what_was_published(log: ControlPlane, apply: Apply) -> None:
    """Each field, with the grant; on that store and no other."""
    apply(KeeperLeased(1, 1))
    apply(
        published(log, 1, AddedSegment(0, 20, "a/b.log", 120, 15, 13, 4, 99, 12), mcco=20, mxfo=20, at_ms=77)
    )
    grant = Grant(lineage=1, mtro=0, mxro=0, tombstones_end=0)
    assert log.find_segments(TOPIC, 0, 1) == [
        Segment(
            first=0,
            end=20,
            file="a/b.log",
            length_bytes=120,
            max_timestamp=15,
            records=13,
            first_tombstone=4,
            crc=99,
            grant=grant,
            first_timestamp=12,
        )
    ]
    assert log.find_segments(TOPIC, 0, 2) == log.find_segments(OTHER, 0, 1) == []
    assert (log.list_files(1), log.list_files(2)) == ({"a/b.log"}, set())
    first, second = log.find_removal(TOPIC, 0).replicas
    assert (first.store, first.incarnation, first.generation) == (1, 1, 1)
    assert (first.settled_to, first.held_to, first.joined_from) == (20, 50, None)
    assert first.cleaned == Cleaned(mcco=20, mxfo=20)
    assert first.clean_coverage == Coverage(entries=((20, 77),))
    assert (second.generation, second.settled_to, second.cleaned) == (0, 0, Cleaned(mcco=0, mxfo=0))
    assert log.find_elapsed() == 77


def test_the_grant_of_a_rewrite_is_kept(log: ControlPlane, apply: Apply) -> None:
    """A checker can ask of every segment what it was allowed to forget."""
    for store in (1, 2):
        apply(published(log, store, segment(0, 20), mcco=20, mxfo=20))
    rewrite = segment(0, 20, "anew")
    apply(published(log, 1, rewrite, removed=("0-20",), grant=(18, 19, 17)))
    (found,) = log.find_segments(TOPIC, 0, 1)
    assert found.grant == Grant(lineage=1, mtro=18, mxro=19, tombstones_end=17)
    assert log.find_removal(TOPIC, 0).replicas[0].cleaned == Cleaned(mcco=20, mxfo=20), "nothing is unlearned"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"lease": 1}, "lease of store 1 is 0"),
        ({"incarnation": 2}, "life 1, not 2"),
        ({"generation": 1}, "generation 1, not 0"),
        ({"generation": 3}, "generation 1, not 2"),
        ({"lineage": 2}, "lineage 1, not 2"),
    ],
)
def test_a_manifest_from_another_time_is_refused(
    log: ControlPlane, apply: Apply, other: dict[str, Any], why: str
) -> None:
    """Another lease, life, generation or lineage; and nothing of it has happened."""
    apply(published(log, 1, segment(0, 10)))
    before = log.find_removal(TOPIC, 0)
    with pytest.raises(CommitRefused, match=why):
        apply(published(log, 1, segment(10, 20), **other))
    assert log.find_removal(TOPIC, 0) == before
    assert log.list_files(1) == {"0-10"}


def test_the_lease_goes_to_one_keeper_after_the_other(log: ControlPlane, apply: Apply) -> None:
    """Each asks for the next one; the one before publishes no longer."""
    for lease in (0, 2):
        with pytest.raises(CommitRefused, match="is not the next"):
            apply(KeeperLeased(1, lease))
    with pytest.raises(CommitRefused, match="no store 7"):
        apply(KeeperLeased(7, 1))
    late = published(log, 1, segment(0, 10))
    apply(KeeperLeased(1, 1))
    with pytest.raises(CommitRefused, match="lease of store 1 is 1, not 0"):
        apply(late)
    with pytest.raises(CommitRefused, match="is not the next"):
        apply(KeeperLeased(1, 1))
    apply(published(log, 1, segment(0, 10)))
    assert [state.lease for state in log.list_stores()] == [1, 0]


def test_a_manifest_for_nobody_is_refused(log: ControlPlane, apply: Apply) -> None:
    """An unknown topic, partition or store, one that does not hold the partition, one that is fenced."""
    fitting = published(log, 1, segment(0, 10))
    log.add_store(3)

    def moved(**other: object) -> SegmentsPublished:
        fields = {name: getattr(fitting, name) for name in fitting.__slots__} | other
        return SegmentsPublished(**fields)

    for change, why in (
        (moved(topic_id=OTHER), "does not exist"),
        (moved(partition=1), "store 1 does not hold"),
        (moved(store=3), "store 3 does not hold"),
        (moved(store=4), "no store 4"),
    ):
        with pytest.raises(CommitRefused, match=why):
            apply(change)
    apply(StoreFenced(1))
    with pytest.raises(CommitRefused, match="store 1 is fenced"):
        apply(fitting)


HOLE = "in the place of"


@pytest.mark.parametrize(
    ("removed", "ranges", "why"),
    [
        ((), [(10, 30)], HOLE),
        ((), [(30, 30)], HOLE),
        ((), [(30, 20)], HOLE),
        ((), [(31, 40)], HOLE),
        ((), [(29, 40)], HOLE),
        ((), [(30, 40), (35, 50)], HOLE),
        ((), [(30, 40), (40, 40)], HOLE),
        ((), [(30, 35), (40, 50)], HOLE),
        (("10-20",), [], HOLE),
        (("20-30",), [], HOLE),
        (("10-20",), [(10, 15)], HOLE),
        (("10-20",), [(5, 20)], HOLE),
        (("10-20",), [(10, 20), (31, 40)], HOLE),
        (("0-10", "20-30"), [(0, 30)], HOLE),
        (("0-10",), [(0, 40)], HOLE),
        (("0-10", "0-10"), [(0, 10)], "no segments"),
        (("0-11",), [(0, 11)], "no segments"),
        ((), [(30, 51)], "stable up to 50 only"),
    ],
)
def test_ranges_that_leave_a_hole_are_refused(
    log: ControlPlane, apply: Apply, removed: tuple[str, ...], ranges: list[tuple[int, int]], why: str
) -> None:
    """Added segments take exactly the place of removed ones, or follow on the last one."""
    apply(published(log, 1, segment(0, 10), segment(10, 20), segment(20, 30)))
    added = [segment(first, end, f"new {first}") for first, end in ranges]
    with pytest.raises(CommitRefused, match=why):
        apply(published(log, 1, *added, removed=removed))
    assert [found.file for found in log.find_segments(TOPIC, 0, 1)] == ["0-10", "10-20", "20-30"]


@pytest.mark.parametrize(
    ("removed", "ranges", "settled_to"),
    [
        ((), [], 30),
        ((), [(30, 40), (40, 50)], 50),
        ((), [(40, 50), (30, 40)], 50),
        (("10-20",), [(10, 20)], 30),
        (("10-20",), [(10, 13), (13, 20)], 30),
        (("0-10", "10-20"), [(0, 20)], 30),
        (("0-10", "20-30"), [(0, 10), (20, 30)], 30),
        (("20-30",), [(20, 40)], 40),
        (("0-10", "10-20", "20-30"), [(0, 45)], 45),
        (("0-10", "20-30"), [(0, 10), (20, 50)], 50),
    ],
)
def test_ranges_that_fit_are_taken(
    log: ControlPlane,
    apply: Apply,
    removed: tuple[str, ...],
    ranges: list[tuple[int, int]],
    settled_to: int,
) -> None:
    """One after the other without a hole, in the order of offsets, whatever the order in the change."""
    apply(published(log, 1, segment(0, 10), segment(10, 20), segment(20, 30)))
    added = [segment(first, end, f"new {first}") for first, end in ranges]
    apply(published(log, 1, *added, removed=removed))
    segments = log.find_segments(TOPIC, 0, 1)
    assert log.find_removal(TOPIC, 0).replicas[0].settled_to == settled_to == segments[-1].end
    assert [0, *(found.end for found in segments)] == [*(found.first for found in segments), settled_to]


@pytest.mark.parametrize("names", [["0-10", "x"], ["x", "x"], ["10-20", "x"]])
def test_a_file_is_published_once(log: ControlPlane, apply: Apply, names: list[str]) -> None:
    """Not even in the place of itself: readers may have it open."""
    apply(published(log, 1, segment(0, 10), segment(10, 20)))
    with pytest.raises(CommitRefused, match="of those names"):
        apply(published(log, 1, segment(0, 5, names[0]), segment(5, 10, names[1]), removed=("0-10",)))


@pytest.mark.parametrize(
    ("grant", "fits"),
    [
        ((20, 20, 20), True),
        ((20, 20, 0), True),
        ((0, 0, 0), True),
        ((10, 20, 11), False),
        ((21, 20, 0), False),
        ((20, 21, 0), False),
    ],
)
def test_a_rewrite_is_granted_by_the_group(
    log: ControlPlane, apply: Apply, grant: tuple[int, int, int], fits: bool
) -> None:
    """Never under more than MTRO and MXRO, and tombstones go below MTRO only."""
    for store in (1, 2):
        apply(published(log, store, segment(0, 20), mcco=20, mxfo=20))
    rewrite = published(log, 1, segment(0, 20, "anew"), removed=("0-20",), grant=grant)
    if fits:
        apply(rewrite)
    else:
        with pytest.raises(CommitRefused, match="may forget below 20 and 20"):
            apply(rewrite)


@pytest.mark.parametrize(
    ("mcco", "mxfo", "fits"),
    [(20, 20, True), (19, 20, True), (-1, 20, True), (20, -1, False), (20, 19, False), (-1, 21, False)],
)
def test_nobody_is_cleaner_than_settled(
    log: ControlPlane, apply: Apply, mcco: int, mxfo: int, fits: bool
) -> None:
    """MCCO up to MXFO, and that up to where the segments end."""
    change = published(log, 1, segment(0, 20), mcco=mcco, mxfo=mxfo)
    if fits:
        apply(change)
        assert log.find_removal(TOPIC, 0).replicas[0].cleaned == Cleaned(mcco=max(mcco, 0), mxfo=mxfo)
    else:
        with pytest.raises(CommitRefused, match="cannot be clean"):
            apply(change)


def test_what_is_not_decided_is_not_settled(log: ControlPlane, apply: Apply) -> None:
    """An open transaction holds it up from its first offset on."""
    apply(TransactionBegun(1, 7), ExtentAppended(TOPIC, 0, 50, 59, [1, 2], 100, 5, 0, 1))
    with pytest.raises(CommitRefused, match="stable up to 50"):
        apply(published(log, 1, segment(0, 60)))
    # Before the end of the transaction, though in the same frame.
    with pytest.raises(CommitRefused, match="stable up to 50"):
        apply(published(log, 1, segment(0, 60)), TransactionEnded(1, True, 1))
    apply(TransactionEnded(1, True, 1))
    apply(published(log, 1, segment(0, 60)))
    assert log.find_removal(TOPIC, 0).replicas[0].settled_to == 60


@pytest.mark.parametrize(
    ("first", "fits"), [(29, True), (30, True), (35, True), (37, True), (20, True), (38, False)]
)
def test_segments_begin_where_the_log_does(log: ControlPlane, apply: Apply, first: int, fits: bool) -> None:
    """What was deleted before it was settled leaves no hole: nobody reads there."""
    apply(published(log, 1, segment(0, 20)))
    apply(LogStartMoved(TOPIC, 0, 37))
    if not fits:
        with pytest.raises(CommitRefused, match=HOLE):
            apply(published(log, 1, segment(first, 50)))
        return
    apply(published(log, 1, segment(first, 50), mcco=50, mxfo=50))
    assert [found.first for found in log.find_segments(TOPIC, 0, 1)] == [first]


def test_what_is_deleted_is_clean(log: ControlPlane, apply: Apply) -> None:
    """A log of which nothing is left holds nobody back."""
    apply(LogStartMoved(TOPIC, 0, 50))
    for store in (1, 2):
        apply(published(log, store, mcco=50, mxfo=50))
    assert log.find_removal(TOPIC, 0).removable == Removable(mtro=50, mxro=50)


def test_a_deleted_topic_has_no_segments(log: ControlPlane, apply: Apply) -> None:
    """Out of sight at once; the rows are trimmed with the others."""
    apply(published(log, 1, segment(0, 10), segment(10, 30)))
    change = published(log, 1, segment(30, 40))
    apply(TopicDeleted(TOPIC))
    assert log.list_files(1) == set()
    assert log.find_segments(TOPIC, 0, 1) == []
    with pytest.raises(CommitRefused, match="does not exist"):
        apply(change)
    # Five extents, two segments and a leader epoch.
    assert [log.trim(5) for _ in range(3)] == [5, 3, 0]
    apply(TopicCreated("orders", OTHER, [[1]], {}))
    assert log.find_removal(OTHER, 0).replicas[0].generation == 0


def test_the_grace_clock_never_goes_back(log: ControlPlane, apply: Apply) -> None:
    """What was saved, or what a frame has named, whichever is later."""
    assert log.find_elapsed() == 0
    log.save_elapsed(500)
    apply(published(log, 1, segment(0, 10), at_ms=300))
    log.save_elapsed(200)
    assert log.find_elapsed() == 500
    apply(published(log, 1, segment(10, 20), at_ms=700))
    assert log.find_elapsed() == 700
