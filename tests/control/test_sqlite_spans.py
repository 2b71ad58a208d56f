"""Spans: what is found by them is what a look at every extent finds, whatever the log's shape."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.control.plane import Extent
from holdfast.control.replicas import Segment
from holdfast.control.sqlite import SqliteControlPlane
from holdfast.control.sqlite_spans import LEVELS, SPAN_BITS, cover
from holdfast.errors import UnknownTopicOrPartition
from holdfast.store.footer import Change, ExtentAppended, LogStartMoved, TopicCreated, TopicDeleted
from holdfast.store.replica_changes import KeeperLeased
from holdfast.store.store import CARRIED, Place, StoredFrame
from tests.control.manifests import carried

TOPIC = UUID(int=1)
EXTENTS_PER_FRAME = 50


class Log:
    """Partition 0 of a topic, and beside it one that must not be mixed up with it."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "control.db"
        self.plane = SqliteControlPlane(self.file)
        self.plane.add_store(1)
        self.extents: list[ExtentAppended] = []
        self._frame = 0
        self.apply(TopicCreated("t", TOPIC, [[1], [1]], {}))

    def apply(self, *changes: Change) -> None:
        self._frame += 1
        place = Place(journal=1, position=1000 * self._frame)
        frame = StoredFrame(store=1, number=self._frame, body=place, footer=b"", end=place)
        self.plane.apply([frame], list(changes))

    def append(self, widths_and_times: list[tuple[int, int]]) -> None:
        end = self.extents[-1].last + 1 if self.extents else 0
        new = []
        for width, time_ms in widths_and_times:
            new.append(ExtentAppended(TOPIC, 0, end, end + width - 1, [1], width % 997 + 1, time_ms, 0))
            end += width
        self.extents += new
        for start in range(0, len(new), EXTENTS_PER_FRAME):
            self.apply(*new[start : start + EXTENTS_PER_FRAME])

    def rows(self) -> list[tuple[int, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return list(connection.execute("SELECT * FROM extent_spans ORDER BY 1, 2, 3, 4"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.plane.close()


def last(extent: Segment | Extent | None) -> int | None:
    return None if extent is None else extent.end - 1


class Query(NamedTuple):
    """Where to look from, in parts of the log, and for which time."""

    part: float
    time_ms: int


WIDTHS = st.sampled_from([1, 2, 7, 100, 255, 256, 257, 3000, 65_535, 65_536, 70_000, 1 << 24, 1 << 33])


@settings(max_examples=80)
@given(
    st.lists(st.tuples(WIDTHS, st.integers(-1, 30), st.integers(1, 60)), min_size=1, max_size=12),
    st.floats(0, 1),
    st.lists(st.builds(Query, st.floats(0, 1), st.integers(-1, 31)), min_size=1, max_size=5),
)
def test_found_as_by_looking_at_every_extent(
    shape: list[tuple[int, int, int]], start_part: float, queries: list[Query]
) -> None:
    """By time, by greatest time and in sum; from any offset, below the log start too, before and after a trim."""
    with TemporaryDirectory() as name:
        log = Log(Path(name))
        with closing(log.plane) as plane:
            log.append([(width, time_ms + n % 3) for width, time_ms, count in shape for n in range(count)])
            end = log.extents[-1].last + 1
            start = int(end * start_part)
            log.apply(LogStartMoved(TOPIC, 0, start), ExtentAppended(TOPIC, 1, 0, 999, [1], 5, 99, 0))
            for is_trimmed in (False, True):
                if is_trimmed:
                    while plane.trim(100):
                        pass
                live = [extent for extent in log.extents if extent.last >= start]
                assert plane.find_size(TOPIC, 0, 1) == sum(extent.length_bytes for extent in live)
                for query in queries:
                    offset = int(end * query.part)
                    there = [extent for extent in live if extent.last >= offset]
                    by_time = [extent.last for extent in there if extent.max_timestamp >= query.time_ms]
                    found = plane.find_extent_by_time(TOPIC, 0, 1, offset, query.time_ms)
                    assert last(found) == (by_time[0] if by_time else None)
                    best = max(there, key=lambda extent: extent.max_timestamp, default=None)
                    newest = plane.find_extent_of_max_time(TOPIC, 0, 1, offset)
                    assert last(newest) == (best.last if best else None)


@settings(max_examples=300)
@given(st.integers(0, 1 << 34), st.integers(0, 1 << 34), st.integers(0, 1 << 34))
def test_cover(a: int, b: int, more: int) -> None:
    """Every offset once, in order, in few pieces, and never by a span that has no row."""
    start, end = sorted((a, b))
    newest = end - 1 + more
    at = start
    pieces = list(cover(start, end, newest))
    for level, first, stop in pieces:
        assert first << SPAN_BITS * level == at
        at = stop << SPAN_BITS * level
        assert level == 0 or stop - 1 < newest >> SPAN_BITS * level
    assert at == max(start, end)
    assert len(pieces) <= 2 * LEVELS + 1
    wide = [stop - first for level, first, stop in pieces if level < LEVELS]
    assert max(wide, default=0) <= 2 << SPAN_BITS


@pytest.mark.parametrize("widths", [[1] * 256, [64] * 1024, [255, 1], [256], [65_536]])
def test_an_end_where_a_span_ends(log: Log, widths: list[int]) -> None:
    """The span of the newest extent is open, full or not: its extents are looked at one by one."""
    log.append([(width, number) for number, width in enumerate(widths)])
    newest = log.extents[-1]
    assert log.plane.find_size(TOPIC, 0, 1) == sum(extent.length_bytes for extent in log.extents)
    assert last(log.plane.find_extent_of_max_time(TOPIC, 0, 1, 0)) == newest.last
    assert last(log.plane.find_extent_by_time(TOPIC, 0, 1, 0, newest.max_timestamp)) == newest.last
    log.append([(1, 0)])
    assert log.plane.find_size(TOPIC, 0, 1) == sum(extent.length_bytes for extent in log.extents)
    assert last(log.plane.find_extent_of_max_time(TOPIC, 0, 1, 0)) == newest.last


def test_few_rows_and_none_left(log: Log) -> None:
    """One for every 256 offsets and level; a trim takes them with their extents, and with their topic."""
    log.append([(10, n) for n in range(3000)])
    by_level = [sum(row[2] == level for row in log.rows()) for level in (1, 2)]
    assert by_level == [30_000 // 256, 0]
    log.append([(10, n) for n in range(7000)])
    assert [sum(row[2] == level for row in log.rows()) for level in (1, 2)] == [100_000 // 256, 1]
    log.apply(LogStartMoved(TOPIC, 0, 70_000))
    while log.plane.trim(1000):
        pass
    assert next(row[3] for row in log.rows() if row[2] == 1) == 70_000 // 256
    assert [row for row in log.rows() if row[2] == 2] == []
    log.apply(TopicDeleted(TOPIC))
    while log.plane.trim(1000):
        pass
    assert log.rows() == []
    with pytest.raises(UnknownTopicOrPartition):
        log.plane.find_extent_by_time(TOPIC, 0, 1, 0, 0)
    assert log.plane.find_size(TOPIC, 0, 1) == 0


def test_migration(log: Log) -> None:
    """A log that was written before there were spans gets those that it would have."""
    log.append([(width, n) for n in range(300) for width in (1, 300, 70_000)])
    log.append([(1 << 25, 7), (5, 5)] * 150)
    written = log.rows()
    assert {row[2] for row in written} == {1, 2, 3, 4}
    folder = resources.files("holdfast.control") / "migrations"
    (script,) = (file for file in folder.iterdir() if file.name.endswith("_extent_spans.sql"))
    with closing(sqlite3.connect(log.file)) as connection:
        connection.execute("DROP TABLE extent_spans")
        connection.executescript(script.read_text())
    assert log.rows() == written


def test_no_question_scans_the_log(log: Log) -> None:
    """Thirty thousand extents take as few steps of SQLite's machine as a thousand, give or take a level."""
    log.append([(10, 0)])
    log.apply(KeeperLeased(1, 1), carried(log.plane, 1, 9, number=3, lease=1))
    steps: list[list[int]] = []
    for _ in range(2):
        log.append([(10, len(log.extents) + n) for n in range(1000 if not steps else 29_000)])
        steps.append([_steps(log, question) for question in ("time", "newest", "size", "carried")])
    for small, large in zip(*steps, strict=True):
        assert large < 4 * small + 200, steps


def _steps(log: Log, question: str) -> int:
    """In tens of virtual machine instructions."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    log.plane._reader.set_progress_handler(step, 10)
    try:
        match question:
            case "time":
                log.plane.find_extent_by_time(TOPIC, 0, 1, 0, len(log.extents) - 1)
            case "newest":
                log.plane.find_extent_of_max_time(TOPIC, 0, 1, 0)
            case "carried":
                assert log.plane.find_carried(1) == {CARRIED + 3}
            case "size":
                log.plane.find_size(TOPIC, 0, 1)
    finally:
        log.plane._reader.set_progress_handler(None, 0)
    return count
