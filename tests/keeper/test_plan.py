"""What is due on a replica: by the rules for a pass, within what is decided and held, and not too often."""

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.control.plane import Extent
from holdfast.control.replicas import Segment
from holdfast.errors import OutcomeMissing
from holdfast.keeper.limits import KeeperLimits
from holdfast.keeper.plan import NOT_LIFTED, Plan, plan
from holdfast.rules import survival
from holdfast.rules.entry import Entry
from holdfast.rules.grace import Coverage
from holdfast.rules.policy import NEVER_MS, CompactionConfig, LogView
from holdfast.rules.removal import Removable
from holdfast.rules.transaction import NO_INSTANCE, Outcome
from holdfast.store.store import CARRIED, Place
from tests.keeper.views import BYTES, NOW_MS, TAIL_JOURNAL, extent, segment, view

NOT_DUE = KeeperLimits(settle_bytes_min=1 << 40, settle_ms_max=NEVER_MS)
AT_ONCE = KeeperLimits(settle_ms_max=0)


class RandomLog:
    """A replica as a plan sees it and as the rules see it."""

    def __init__(self, chance: Random) -> None:
        self.entries: list[Entry] = []
        self.config = CompactionConfig(
            delete_retention_ms=chance.choice([0, 300, 1000]),
            min_compaction_lag_ms=chance.choice([0, 0, 300]),
            max_compaction_lag_ms=chance.choice([NEVER_MS, 600]),
            min_cleanable_dirty_ratio=chance.choice([0.0, 0.2, 0.5, 1.0]),
        )
        # A pass ends with whole pieces, the rules' before the first record that is too young.
        records_max = 1 if self.config.min_compaction_lag_ms else 3
        clean, dirty, unsettled = (chance.randrange(6) for _ in range(3))
        segments: list[Segment] = []
        offset = 0
        for _ in range(clean):
            segments.append(self._segment(chance, offset, offset + chance.randint(1, 4), chance.randrange(4)))
            offset = segments[-1].end
        self.mcco = offset
        for _ in range(dirty):
            records = chance.randint(0, records_max)
            segments.append(self._segment(chance, offset, offset + chance.randint(1, 4), records))
            offset = segments[-1].end
        extents: list[Extent] = []
        self.last_stable: int | None = None
        for _ in range(unsettled):
            extents.append(self._extent(chance, offset))
            offset += 1
        self.last_stable = offset if self.last_stable is None else self.last_stable
        self.held_to = chance.choice([offset, chance.randint(segments[-1].end if segments else 0, offset)])
        mtro = chance.randint(0, self.mcco)
        covered = Coverage().cover(chance.randint(0, mtro), NOW_MS - 500).cover(mtro, NOW_MS - 100)
        self.bounds = survival.forgettable(
            Removable(mtro=mtro),
            clean=covered,
            covered=covered,
            now_ms=NOW_MS,
            delete_retention_ms=self.config.delete_retention_ms,
        )
        self.view = view(
            tuple(segments),
            tuple(extents),
            last_stable=self.last_stable,
            held_to=self.held_to,
            mcco=self.mcco,
            mtro=mtro,
            covered=covered,
            config=self.config,
        )

    def pass_end(self) -> int | None:
        """What the rules say."""
        stable = min(self.last_stable or 0, self.held_to)
        log = LogView(
            entries=self.entries,
            segments=(),
            first_dirty=self.mcco,
            last_stable_offset=stable,
            now_ms=NOW_MS,
        )
        return survival.pass_end(log, bounds=self.bounds, config=self.config)

    def _segment(self, chance: Random, first: int, end: int, records: int) -> Segment:
        entries = [self._entry(chance, offset) for offset in range(first, min(end, first + records))]
        self.entries += entries
        tombstones = [entry.offset for entry in entries if entry.value is None]
        return segment(
            first,
            end,
            length_bytes=BYTES * len(entries),
            records=len(entries),
            max_timestamp=max((entry.timestamp_ms for entry in entries), default=-1),
            first_timestamp=entries[0].timestamp_ms if entries else -1,
            first_tombstone=tombstones[0] if tombstones else -1,
        )

    def _extent(self, chance: Random, offset: int) -> Extent:
        entry = self._entry(chance, offset)
        self.entries.append(entry)
        outcome = chance.choice([None, None, None, Outcome.COMMITTED, Outcome.ABORTED, Outcome.OPEN])
        if outcome is Outcome.OPEN and self.last_stable is None:
            self.last_stable = offset
        return extent(
            offset,
            max_timestamp=entry.timestamp_ms,
            first_timestamp=entry.timestamp_ms,
            instance=NO_INSTANCE if outcome is None else offset,
            outcome=outcome,
        )

    def _entry(self, chance: Random, offset: int) -> Entry:
        return Entry(
            offset=offset,
            key=str(offset),
            value=None if chance.random() < 0.3 else "v",
            timestamp_ms=NOW_MS - chance.randrange(1000),
        )


@pytest.mark.parametrize("seed", range(10))
def test_a_pass_is_due_when_the_rules_say_so(seed: int) -> None:
    """Dirty ratio, both lags, deadlines of tombstones, open transactions and what is not held, two hundred each."""
    for number in range(200):
        log = RandomLog(Random(1000 * seed + number))
        made = plan(log.view, NOT_DUE)
        expected = log.pass_end()
        assert (None if made is None else made.mcco) == expected, number
        if made is not None:
            check_compaction(log, made)


def check_compaction(log: RandomLog, made: Plan) -> None:
    """It goes over everything below its end, and forgets what the group allows."""
    item, end = made.item, made.mcco
    assert (item.compacts, item.end, made.mxfo) == (True, end, end)
    assert end <= min(log.last_stable or 0, log.held_to) or end == log.mcco
    assert item.tombstones_end == made.grant.tombstones_end == log.bounds.tombstones_end
    taken = [one for one in log.view.segments if one.end <= end]
    aborted = [one for one in log.view.extents if one.outcome is Outcome.ABORTED]
    extents = [one for one in log.view.extents if one.last < end and one not in aborted]
    assert [(piece.first, piece.end, piece.file, piece.crc) for piece in item.pieces] == [
        *((one.first, one.end, one.file, one.crc) for one in taken),
        *((one.first, one.end, None, None) for one in extents),
    ]
    assert [piece.is_clean for piece in item.pieces] == [piece.end <= log.mcco for piece in item.pieces]
    assert item.first == (taken[0].first if taken else log.view.manifest.settled_to)


@pytest.mark.parametrize("seed", range(5))
def test_settling_ends_where_something_is_open_or_missing(seed: int) -> None:
    """All that is decided and held without a hole, and nothing that was aborted."""
    for number in range(100):
        log = RandomLog(Random(1000 * seed + number))
        made = plan(replace(log.view, compacts=False), AT_ONCE)
        stable = min(log.last_stable or 0, log.held_to)
        decided = [one for one in log.view.extents if one.last < stable]
        assert (made is not None) == bool(decided)
        if made is not None:
            assert made.item.end == made.mxfo == stable
            assert (made.item.compacts, made.mcco) == (False, NOT_LIFTED)
            kept = [one.first for one in decided if one.outcome is not Outcome.ABORTED]
            assert [piece.first for piece in made.item.pieces if piece.file is None] == kept


@pytest.mark.parametrize("outcome", [None, Outcome.OPEN])
@pytest.mark.parametrize("compacts", [True, False])
def test_a_missing_outcome_stops_the_plan(outcome: Outcome | None, compacts: bool) -> None:
    """Below the last stable offset everything is decided; if nobody knows how, nobody may guess."""
    extents = (extent(0), extent(1, instance=5, outcome=outcome))
    for limits in (NOT_DUE, AT_ONCE):
        with pytest.raises(OutcomeMissing):
            plan(view((), extents, compacts=compacts), limits)


def test_a_hole_ends_what_is_settled() -> None:
    """An extent that does not follow is not taken: what lies between is on its way."""
    made = plan(view((), (extent(0), extent(2))), AT_ONCE)
    assert made is not None
    assert made.item.end == 1


def test_what_the_log_start_has_passed_is_no_hole() -> None:
    """Extents below the log start are gone: the first segment covers them all the same."""
    for compacts in (True, False):
        extents = (extent(90, 109), extent(110))
        made = plan(view((), extents, start=100, settled_to=20, compacts=compacts), AT_ONCE)
        assert made is not None
        assert (made.item.first, made.item.end, made.item.log_start) == (20, 111, 100)


def test_settling_is_due_by_size_by_age_and_when_a_journal_is_full() -> None:
    """Or when the replica has to come along; with none of these it waits."""
    limits = KeeperLimits(settle_bytes_min=2 * BYTES, settle_ms_max=1000)
    young = NOW_MS - 999

    def is_due(*extents: Extent, **fields: Any) -> bool:
        return plan(view((), extents, compacts=False, **fields), limits) is not None

    assert not is_due(extent(0, max_timestamp=young))
    assert is_due(extent(0, max_timestamp=young - 1))
    assert is_due(extent(0, max_timestamp=young), extent(1, max_timestamp=young))
    aborted = extent(1, max_timestamp=young, instance=1, outcome=Outcome.ABORTED)
    assert not is_due(extent(0, max_timestamp=young), aborted)
    assert is_due(extent(0, max_timestamp=young, places={1: Place(journal=TAIL_JOURNAL - 1, position=0)}))
    assert not is_due(extent(0, max_timestamp=young, places={1: Place(journal=CARRIED, position=0)}))
    assert is_due(extent(0, max_timestamp=young), joined_from=1)


def test_extents_are_read_where_they_lie() -> None:
    """In the journal or the carried file that the place names."""
    places = (Place(journal=3, position=40), Place(journal=CARRIED + 2, position=28))
    made = plan(view((), tuple(extent(n, places={1: place}) for n, place in enumerate(places))), AT_ONCE)
    assert made is not None
    journal, carried = made.item.pieces
    assert (Path(journal.path).name, journal.position) == ("00000000000000000003.journal", 40)
    assert (Path(carried.path).suffix, carried.position) == (".carried", 28)


def test_an_empty_segment_makes_nothing_due() -> None:
    """It has neither bytes nor an age: what was aborted there is gone already."""
    empty = segment(0, 5, records=0, length_bytes=0, max_timestamp=-1)
    config = CompactionConfig(max_compaction_lag_ms=10, min_cleanable_dirty_ratio=0.0)
    assert plan(view((empty,), config=config), NOT_DUE) is None
    young = segment(5, 6, max_timestamp=NOW_MS)
    late = replace(config, min_cleanable_dirty_ratio=1.0)
    assert plan(view((empty, young), config=late), NOT_DUE) is None
    assert plan(view((empty, young), config=config), NOT_DUE) is not None


def test_the_longest_lag_counts_from_the_first_record_that_is_dirty() -> None:
    """However new the others of its piece are; of a piece from before that was written down, from its newest."""
    config = CompactionConfig(max_compaction_lag_ms=600, min_cleanable_dirty_ratio=1.0)

    def is_due(**times: int) -> bool:
        in_segment = plan(view((segment(0, 5, **times),), config=config), NOT_DUE) is not None
        in_journal = plan(view((), (extent(0, 4, **times),), config=config), NOT_DUE) is not None
        assert in_segment == in_journal
        return in_segment

    assert is_due(first_timestamp=NOW_MS - 601, max_timestamp=NOW_MS)
    assert not is_due(first_timestamp=NOW_MS - 600, max_timestamp=NOW_MS)
    assert is_due(first_timestamp=-1, max_timestamp=NOW_MS - 601)
    assert not is_due(first_timestamp=-1, max_timestamp=NOW_MS - 600)
    assert not is_due(first_timestamp=-1, max_timestamp=-1), "what has no time is never overdue"
    clean, dirty = segment(0, 5, first_timestamp=0), segment(5, 6, first_timestamp=NOW_MS)
    assert plan(view((clean, dirty), mcco=5, config=config), NOT_DUE) is None, "what is clean has no lag"


def test_tombstones_are_noted_for_whoever_compacts_some_day() -> None:
    """A topic that was compacted and is not now may be again; one that never was has nobody to ask for them."""
    for compacts, mcco, surveys in ((True, 0, True), (False, 2, True), (False, 0, False)):
        made = plan(view((segment(0, 2),), (extent(2),), mcco=mcco, compacts=compacts), AT_ONCE)
        assert made is not None
        assert made.item.surveys == surveys


@pytest.mark.parametrize("topic_bytes_max", [64 * BYTES, 1 << 30])
@pytest.mark.parametrize("compacts", [True, False])
def test_a_thousand_small_settles_rewrite_a_byte_a_few_times(compacts: bool, topic_bytes_max: int) -> None:
    """As often as segments grow by half: neither does each settle rewrite all, nor leave a segment for ever."""
    chance = Random(5)
    segments: tuple[Segment, ...] = (segment(0, 1),) if compacts else ()
    written = total = 0
    config = CompactionConfig(min_cleanable_dirty_ratio=1.0)
    for _ in range(1000):
        offset = segments[-1].end if segments else 0
        sizes = [BYTES * chance.randint(1, 3)]
        extents = (
            extent(offset, length_bytes=sizes[0]),
            extent(offset + 1, instance=1, outcome=Outcome.ABORTED),
        )
        total += sizes[0]
        before = view(
            segments,
            extents,
            mcco=1 if compacts else 0,
            compacts=compacts,
            config=config,
            segment_bytes_max=topic_bytes_max,
        )
        made = plan(before, AT_ONCE)
        assert made is not None
        written += made.item.size_bytes
        merged = [piece.file for piece in made.item.pieces if piece.file is not None]
        kept = tuple(one for one in segments if one.file not in merged)
        segments = (*kept, segment(made.item.first, made.item.end, length_bytes=made.item.size_bytes))
        assert made.item.size_bytes <= topic_bytes_max
    assert segments[0].end == 1 or not compacts
    assert written < math.log2(1000) * total
    assert len(segments) < 12 + 4 * total / topic_bytes_max
