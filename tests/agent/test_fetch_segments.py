"""Reading on from segments into journals: gaps anywhere, files that are replaced meanwhile, damage."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.agent import fetch_plan
from holdfast.agent.fetch_plan import PartitionReader
from holdfast.control.plane import LogBounds
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.errors import OffsetOutOfRange, StoreFailed
from holdfast.records.batch import BatchView
from holdfast.records.control import FILLER_PRODUCER_ID
from holdfast.records.walk import walk_valid
from holdfast.rules.transaction import Outcome
from holdfast.store.segment import segment_path
from tests.agent.segmented import RandomSegments, SegmentedLog, thinned

OUTCOMES = (None, None, None, Outcome.COMMITTED, Outcome.ABORTED, Outcome.OPEN)


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut would take is not asked for here, and disks are slow."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SegmentedLog]:
    """An empty log."""
    log = SegmentedLog(tmp_path)
    yield log
    log.close()


def batches(log: SegmentedLog) -> list[bytes]:
    return [batch for batch, _ in log.produced]


@pytest.mark.parametrize("seed", range(12))
def test_every_reader_comes_to_the_end_and_misses_nothing(
    log: SegmentedLog, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From every offset, at both isolation levels, with room for much or for a byte; some searches in small steps."""
    chance = Random(seed)
    if seed % 2:
        monkeypatch.setattr(fetch_plan, "SEARCH_BYTES", 200)
    segments = RandomSegments(log, chance)
    for _ in range(4):
        for _ in range(chance.randint(1, 4)):
            counts = [chance.randint(1, 5) for _ in range(chance.randint(1, 3))]
            log.append(*counts, outcome=chance.choice(OUTCOMES), value=bytes(chance.randrange(100)))
        segments.settle()
    start = 0
    if seed % 3 == 0:
        start = chance.randint(0, log.end)
        log.move_start(start)
    for committed_only in (False, True):
        end = log.last_stable() if committed_only else log.end
        for offset in range(start, end + 1):
            bytes_max = chance.choice([0, 1, 200, 1 << 20])
            found = log.read_all(offset, bytes_max, committed_only=committed_only)
            assert found == segments.expected(offset, committed_only=committed_only), offset


def test_gaps_at_the_start_in_the_middle_and_at_the_end_of_segments(log: SegmentedLog) -> None:
    """One filler, or none, takes a reader over each of them."""
    log.append(*[1] * 20)
    some = batches(log)
    log.publish((0, 10, some[3:5] + some[7:8]), (10, 16, some[12:13]), (16, 18, ()), (18, 20, some[19:]))
    for offset in range(20):
        assert log.read_all(offset) == [one for one in (3, 4, 7, 12, 19) if one >= offset]
        assert len(log.read(offset).chunks) <= 4
    assert [batch.base_offset for batch in walk_valid(log.read(0).chunks[0])] == [3, 4, 7]


@pytest.mark.parametrize("committed_only", [False, True])
def test_a_log_that_is_compacted_away_is_read_to_its_end(log: SegmentedLog, committed_only: bool) -> None:
    """One filler over all of it, from wherever one begins; then there is nothing, and no error."""
    log.append(5, 5)
    log.append(5, outcome=Outcome.ABORTED)
    log.publish((0, 4, ()), (4, 15, ()))
    for offset in range(15):
        (chunk,) = log.read(offset, 1, committed_only=committed_only).chunks
        filler = BatchView(chunk)
        assert (filler.base_offset, filler.last_offset, filler.is_control) == (offset, 14, True)
        assert filler.producer_id == FILLER_PRODUCER_ID
        assert log.read_all(offset, committed_only=committed_only) == []
    assert log.read(15, committed_only=committed_only).chunks == []
    log.append(1)
    assert log.read_all(0, committed_only=committed_only) == [15]


def test_more_empty_segments_than_one_plan_holds(log: SegmentedLog) -> None:
    """Each answer takes the reader as far as its plan went."""
    log.append(*[1] * 300)
    log.publish(*((offset, offset + 1, ()) for offset in range(299)))
    assert log.read_all(0) == [299]


def test_an_extent_that_begins_before_the_last_segment_ends_is_read_from_there_on(log: SegmentedLog) -> None:
    """What lies below was settled, and may have been dropped: it must not turn up once more."""
    log.append(*[2] * 5)
    log.append(1)
    log.publish((0, 6, batches(log)[:1]))
    for offset in range(11):
        found = log.read_all(offset)
        assert found == [one for one in (0, 1, 6, 7, 8, 9, 10) if one >= offset]
        assert [batch.base_offset for batch in walk_valid(b"".join(log.read(offset).chunks))].count(2) == 0


def test_a_filler_goes_no_further_than_what_is_known_to_be_empty(log: SegmentedLog) -> None:
    """A batch that does not fit ends the read: the filler must not take the reader over it."""
    log.append(3)
    log.append(3, value=bytes(5000))
    log.publish((0, 3, ()))
    (chunk,) = log.read(0, 100, at_least_one=False).chunks
    assert (BatchView(chunk).is_control, BatchView(chunk).last_offset) == (True, 2)
    assert log.read(3, 100, at_least_one=False).chunks == []
    assert log.read_all(0, 100) == [3, 4, 5]


def test_records_that_all_lie_below_the_offset_do_not_stop_a_reader(log: SegmentedLog) -> None:
    """What is left of a batch is sent with a control batch beside it: some clients take silence for a limit too low."""
    log.append(10)
    (batch,) = batches(log)
    log.publish((0, 10, [thinned(batch, [2, 4])]))
    for offset in (5, 9):
        data = log.read(offset)
        first, filler = walk_valid(b"".join(data.chunks))
        assert (first.base_offset, first.last_offset) == (0, 9)
        assert (filler.base_offset, filler.last_offset, filler.is_control) == (9, 9, True)
    assert [batch.is_control for batch in walk_valid(b"".join(log.read(0).chunks))] == [False]
    log.append(1)
    assert [batch.is_control for batch in walk_valid(b"".join(log.read(5).chunks))] == [False, False]
    assert log.read_all(5) == [10]


def test_an_offset_outside_of_the_log_is_refused(log: SegmentedLog) -> None:
    """Gaps or not: below the log start, which may lie inside of a segment, and beyond the end."""
    log.append(*[1] * 10)
    log.publish((0, 10, batches(log)[7:]))
    log.move_start(5)
    for offset in (4, 11):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset)
    assert log.read_all(5) == [7, 8, 9]


def test_no_position_outlives_its_segment(log: SegmentedLog) -> None:
    """Where the last read ended is remembered for its file: the next one is laid out in another way."""
    log.append(*[1] * 10)
    some = batches(log)
    (old,) = log.publish((0, 10, some))
    assert log.read_all(0, len(some[0])) == list(range(10))
    (new,) = log.publish((0, 10, some[5:]), removed=[old])
    for offset in range(10):
        assert log.read_all(offset, len(some[0])) == [one for one in range(5, 10) if one >= offset]
    log.publish((0, 7, ()), (7, 10, some[8:]), removed=[new])
    for offset in range(10):
        assert log.read_all(offset, 1) == [one for one in (8, 9) if one >= offset]


def test_reading_on_in_a_segment_does_not_search_again(
    log: SegmentedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a journal: the position after the last read is remembered."""
    log.append(*[1] * 100)
    log.publish((0, 100, batches(log)))
    size_bytes = sum(map(len, batches(log)))
    read_bytes = 0
    read_segment = log.store.read_segment

    def counted(file: str, position: int, length: int) -> bytes:
        nonlocal read_bytes
        read_bytes += length
        return read_segment(file, position, length)

    monkeypatch.setattr(log.store, "read_segment", counted)
    assert log.read_all(0, 1000) == list(range(100))
    assert read_bytes < 1.2 * size_bytes


class ReplacingPlane:
    """Puts other segments in the place of those that a plan names, right after it was made."""

    def __init__(self, plane: SqliteControlPlane, replace: Any, *, times: int) -> None:
        self._plane = plane
        self._replace = replace
        self._times = times
        self.plans = 0

    def find_pieces(self, *wanted: Any) -> tuple[LogBounds, Any]:
        """The plan, and what makes it stale."""
        planned = self._plane.find_pieces(*wanted)
        self.plans += 1
        if self.plans <= self._times:
            self._replace()
        return planned


@pytest.mark.parametrize("offset", [0, 3, 8])
def test_a_file_that_is_replaced_before_it_is_read_is_planned_anew(log: SegmentedLog, offset: int) -> None:
    """The keeper deletes what it has rewritten: a reader on its way finds the new files."""
    log.append(*[1] * 10)
    some = batches(log)
    (old,) = log.publish((0, 10, some))

    def replace() -> None:
        log.publish((0, 10, some[2:9]), removed=[old])
        log.store.delete_segment(old)

    plane: Any = ReplacingPlane(log.plane, replace, times=1)
    log.reader = PartitionReader(plane, log.store)
    assert log.read_all(offset) == [one for one in range(2, 9) if one >= offset]
    assert plane.plans > 1


def test_a_file_that_is_gone_is_an_error(log: SegmentedLog) -> None:
    """It is named; nobody is taken past what was acknowledged."""
    log.append(*[1] * 10)
    (file,) = log.publish((0, 10, batches(log)))
    log.store.delete_segment(file)
    for offset in (0, 5):
        with pytest.raises(StoreFailed, match=r"00000000000000000000\.1-0"):
            log.read(offset)


@pytest.mark.parametrize(
    ("at", "damage"), [(8, b"\x7f"), (8, b"\xff\xff\xff\xf4"), (16, b"\x01")], ids=["long", "short", "magic"]
)
def test_damage_is_not_taken_for_a_gap(log: SegmentedLog, at: int, damage: bytes) -> None:
    """A header that leads nowhere is an error: to skip what follows would lose records without a word."""
    log.append(*[1] * 10)
    some = batches(log)
    (file,) = log.publish((0, 10, some))
    path = segment_path(log.directory, file)
    data = bytearray(path.read_bytes())
    start = len(some[0]) + at
    data[start : start + len(damage)] = damage
    path.write_bytes(data)
    with pytest.raises(StoreFailed):
        log.read(5)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_segment_must_end_with_a_batch(log: SegmentedLog, change: int) -> None:
    """The last one is longer or shorter than what is there."""
    log.append(*[1] * 10)
    some = batches(log)
    (file,) = log.publish((0, 10, some[:2]))
    path = segment_path(log.directory, file)
    data = bytearray(path.read_bytes())
    length_at = len(some[0]) + 8
    length = int.from_bytes(data[length_at : length_at + 4], "big") + change
    data[length_at : length_at + 4] = length.to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(StoreFailed):
        log.read(5)
