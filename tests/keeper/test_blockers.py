"""Who holds a removal offset back, and why: each reason on its own, and what counts when several apply."""

from dataclasses import replace

import pytest

from holdfast.control.plane import Extent, LogBounds
from holdfast.control.replicas import Grant, PartitionRemoval, ReplicaManifest, Segment, StorePhase
from holdfast.keeper.blockers import (
    Blocker,
    PartitionStanding,
    Reason,
    find_blockers,
    waiting_tombstone_bytes,
)
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import ReplicaView, plan
from holdfast.rules.blockers import Track
from holdfast.rules.grace import Coverage
from holdfast.rules.policy import CompactionConfig
from holdfast.rules.removal import UNREPORTED, Cleaned, Removable
from holdfast.store.store import Place

LIMITS = KeeperLimits(settle_bytes_min=1000, settle_ms_max=60_000)
NOW_MS = 1_000_000
GRACE_MS = 5_000
IN_SYNC = dict.fromkeys((1, 2, 3), StorePhase.IN_SYNC)


def member(store: int, mcco: int, mxfo: int | None = None, **other: object) -> ReplicaManifest:
    """A replica in sync that has settled as far as it is clean."""
    mxfo = mcco if mxfo is None else mxfo
    made = ReplicaManifest(
        store=store,
        incarnation=1,
        generation=1,
        settled_to=mxfo,
        held_to=100,
        joined_from=None,
        cleaned=Cleaned(mcco=mcco, mxfo=mxfo),
        clean_coverage=Coverage(entries=((mcco, 100 * store),) if mcco else ()),
    )
    return replace(made, **other)  # type: ignore[arg-type]  # fields of it


def segment(first: int, end: int, *, size: int = 100, tombstone: int = -1, time_ms: int = 0) -> Segment:
    return Segment(
        first=first,
        end=end,
        file=f"{'0' * 32}/0/{first:020d}.1-aa.log",
        length_bytes=size,
        max_timestamp=time_ms,
        records=1,
        first_tombstone=tombstone,
        crc=0,
        grant=Grant(lineage=1, mtro=0, mxro=0, tombstones_end=0),
    )


def extent(first: int, end: int, *, size: int = 100, time_ms: int = 0) -> Extent:
    places = {store: Place(journal=1, position=0) for store in (1, 2, 3)}
    return Extent(first=first, last=end - 1, places=places, length_bytes=size, max_timestamp=time_ms)


class Scene:
    """A partition of offsets 0 to 99 on three stores, all clean up to 40, each with a segment up to there."""

    def __init__(self, *members: ReplicaManifest) -> None:
        self.members = members or tuple(member(store, 40) for store in (1, 2, 3))
        self.phases = dict(IN_SYNC)
        self.bounds = LogBounds(start=0, end=100, last_stable=100, leader_epoch=0)
        self.config = CompactionConfig(min_cleanable_dirty_ratio=0.5)
        self.coverage = Coverage(entries=((40, 300),))
        self.compacts = True
        self.extents: tuple[Extent, ...] = (extent(40, 70), extent(70, 100))
        self.segments: tuple[Segment, ...] = (segment(0, 40),)

    @property
    def removal(self) -> PartitionRemoval:
        values = [each.cleaned for each in self.members if each.cleaned.mcco is not UNREPORTED]
        return PartitionRemoval(
            lineage=1,
            membership=1,
            trimmed_to=0,
            removable=Removable(
                mtro=min(int(each.mcco) for each in values),  # type: ignore[arg-type]  # those that reported
                mxro=min(int(each.mxfo) for each in values),  # type: ignore[arg-type]
            ),
            coverage=self.coverage,
            replicas=self.members,
        )

    def view(self, of: ReplicaManifest) -> ReplicaView:
        return ReplicaView(
            store=of.store,
            directory="",
            lease=1,
            topic="t",
            topic_id="00",
            partition=0,
            bounds=self.bounds,
            compacts=self.compacts,
            config=self.config,
            segment_bytes_max=1 << 30,
            manifest=of,
            removal=self.removal,
            segments=self.segments,
            extents=tuple(each for each in self.extents if each.last >= of.settled_to),
            peers=(),
            tail_journal=1,
            wall_ms=NOW_MS,
            grace_ms=GRACE_MS,
        )

    def standing(self) -> PartitionStanding:
        whole = [
            each
            for each in self.members
            if self.phases[each.store] is StorePhase.IN_SYNC and each.joined_from is None
        ]
        return PartitionStanding(
            removal=self.removal,
            bounds=self.bounds,
            compacts=self.compacts,
            phases=self.phases,
            views={each.store: self.view(each) for each in whole},
        )

    def found(self, track: Track = Track.TOMBSTONES) -> list[Blocker]:
        return [each for each in find_blockers(self.standing(), LIMITS) if each.track is track]

    def reasons(self, track: Track = Track.TOMBSTONES) -> list[tuple[int | None, Reason]]:
        return [(each.store, each.reason) for each in self.found(track)]


def test_nobody_where_everything_is_clean() -> None:
    """Also where a newcomer was given values above its log end, and where nothing was ever written."""
    scene = Scene(*(member(store, end) for store, end in ((1, 100), (2, 100), (3, 120))))
    scene.coverage = Coverage()
    assert find_blockers(scene.standing(), LIMITS) == ()
    scene = Scene(*(member(store, 0) for store in (1, 2, 3)))
    scene.bounds = LogBounds(start=0, end=0, last_stable=0, leader_epoch=0)
    assert find_blockers(scene.standing(), LIMITS) == ()


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (StorePhase.AWAY, Reason.AWAY),
        (StorePhase.LOST, Reason.AWAY),
        (StorePhase.JOINING, Reason.JOINING),
        (StorePhase.IN_SYNC, Reason.BEHIND),
    ],
)
def test_the_one_that_stands_lowest(phase: StorePhase, reason: Reason) -> None:
    """By what its store is; since when the first of the others got past it."""
    scene = Scene(member(1, 100), member(2, 100), member(3, 40))
    scene.phases[3] = phase
    (found,) = scene.found()
    assert (found.store, found.reason, found.at, found.since_ms) == (3, reason, 40, 100)
    (found,) = scene.found(Track.OUTCOMES)
    assert (found.store, found.at, found.since_ms) == (3, 40, None), "nobody keeps times of that track"


def test_a_replica_may_be_joining_on_a_store_that_is_in_sync() -> None:
    """One that was placed there a moment ago."""
    scene = Scene(member(1, 100), member(2, 100), member(3, 40, joined_from=100, held_to=40))
    assert scene.reasons() == [(3, Reason.JOINING)]


def test_one_that_never_reported() -> None:
    """Is named, and hides nobody."""
    scene = Scene(member(1, 100), member(2, 40), member(3, 0, cleaned=Cleaned()))
    assert scene.reasons() == [(2, Reason.BEHIND), (3, Reason.UNREPORTED)]
    assert scene.found()[1].at is UNREPORTED


def test_a_pass_that_is_due() -> None:
    """On all of them: nobody is behind, the keeper has yet to come; the plan says the same."""
    scene = Scene()
    assert scene.reasons() == [(store, Reason.DUE) for store in (1, 2, 3)]
    assert plan(scene.view(scene.members[0]), LIMITS) is not None


def test_an_open_transaction_is_nobodys_fault() -> None:
    """It is told once, and only where everything below it is clean; who is away is told before."""
    scene = Scene()
    scene.bounds = replace(scene.bounds, last_stable=40)
    expected = [(None, Reason.OPEN_TRANSACTION)]
    assert scene.reasons() == scene.reasons(Track.OUTCOMES) == expected
    assert scene.found()[0].at == 40
    scene.phases[3] = StorePhase.AWAY
    assert scene.reasons() == [(None, Reason.OPEN_TRANSACTION), (3, Reason.AWAY)]
    scene.bounds = replace(scene.bounds, last_stable=70)
    scene.config = replace(scene.config, min_cleanable_dirty_ratio=0.4)
    assert scene.reasons() == [(1, Reason.DUE), (2, Reason.DUE), (3, Reason.AWAY)]


def test_the_compaction_lag() -> None:
    """For as long as the next piece is too young; what is old enough before it is another matter."""
    scene = Scene()
    scene.config = replace(scene.config, min_compaction_lag_ms=10_000)
    scene.extents = (extent(40, 70, time_ms=NOW_MS - 4_000), extent(70, 100, time_ms=NOW_MS - 9_000))
    assert [(each.reason, each.remaining_ms) for each in scene.found()] == [(Reason.LAG, 6_000)] * 3
    scene.extents = (extent(40, 70, time_ms=NOW_MS - 11_000), extent(70, 100, time_ms=NOW_MS))
    scene.config = replace(scene.config, min_cleanable_dirty_ratio=0.4)
    assert {each.reason for each in scene.found()} == {Reason.DUE}
    scene.segments = (segment(0, 40), segment(40, 70, time_ms=NOW_MS))
    scene.members = tuple(member(store, 40, 70) for store in (1, 2, 3))
    assert [(each.reason, each.remaining_ms) for each in scene.found()] == [(Reason.LAG, 10_000)] * 3


def test_the_dirty_ratio() -> None:
    """With what is measured; the plan comes to the same."""
    scene = Scene()
    scene.segments = (segment(0, 40, size=600),)
    for each in scene.found():
        assert (each.reason, each.dirty_bytes, each.clean_bytes) == (Reason.DIRTY_RATIO, 200, 600)
    assert plan(scene.view(scene.members[0]), replace(LIMITS, settle_ms_max=1 << 60)) is None


def test_too_little_to_settle() -> None:
    """By bytes, or by age."""
    scene = Scene()
    scene.compacts = False
    scene.extents = (extent(40, 100, time_ms=NOW_MS),)
    assert scene.reasons(Track.OUTCOMES) == [(store, Reason.SMALL) for store in (1, 2, 3)]
    scene.extents = (extent(40, 100, time_ms=NOW_MS, size=1000),)
    assert scene.reasons(Track.OUTCOMES) == [(store, Reason.DUE) for store in (1, 2, 3)]
    scene.extents = (extent(40, 100, time_ms=NOW_MS - 60_000),)
    assert scene.reasons(Track.OUTCOMES) == [(store, Reason.DUE) for store in (1, 2, 3)]
    assert scene.reasons(Track.TOMBSTONES) == [], "nothing is compacted here"


def test_the_grace_of_tombstones_that_may_go() -> None:
    """Until the later of both times has the retention behind it; not where there is no tombstone below MTRO."""
    scene = Scene(*(member(store, 100) for store in (1, 2, 3)))
    scene.coverage = Coverage(entries=((100, 4_000),))
    scene.config = replace(scene.config, delete_retention_ms=3_000)
    scene.segments = (segment(0, 40), segment(40, 100, tombstone=50))
    (found,) = scene.found()
    assert (found.reason, found.store, found.at, found.remaining_ms) == (Reason.GRACE, None, 50, 2_000)
    scene.coverage = Coverage(entries=((100, 2_000),))
    assert scene.found() == [], "the grace is over: the next pass takes them"
    scene.coverage = Coverage()
    assert [each.remaining_ms for each in scene.found()] == [3_000], "it has not begun"
    scene.segments = (segment(0, 100),)
    assert scene.found() == []


def test_what_lies_below_the_log_start_holds_nothing_back() -> None:
    """Nobody needs to clean what is gone."""
    scene = Scene(member(1, 40), member(2, 60), member(3, 70))
    scene.bounds = replace(scene.bounds, start=65)
    assert scene.reasons() == [(1, Reason.BEHIND), (2, Reason.BEHIND)]
    assert {each.at for each in scene.found()} == {65}


def test_waiting_tombstones() -> None:
    """From the first one on, between MTRO and what is clean here: as many as there are offsets, or records."""
    segments = [
        replace(segment(0, 40, tombstone=10), records=20),
        replace(segment(40, 80, tombstone=60), records=40),
        replace(segment(80, 100, tombstone=80), records=10),
    ]
    for mcco, mtro, expected in (
        (100, 0, 100 + 50 + 100),
        (100, 25, 75 + 50 + 100),
        (100, 60, 50 + 100),
        (70, 0, 100 + 25),
        (70, 70, 0),
        (0, 0, 0),
    ):
        assert waiting_tombstone_bytes(segments, member(1, mcco), mtro) == expected, (mcco, mtro)
    assert waiting_tombstone_bytes([segment(0, 40)], member(1, 40), 0) == 0
    assert waiting_tombstone_bytes(segments, member(1, 0, cleaned=Cleaned()), 0) == 0
