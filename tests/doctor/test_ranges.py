"""Fingerprints first: the same findings, and only what differs is read record by record."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.doctor.examine import Examiner, Limits
from holdfast.doctor.findings import Finding
from holdfast.doctor.prints import print_source
from holdfast.doctor.ranges import Prints, narrow
from holdfast.doctor.source import Answer, Position
from holdfast.rules.entry import Entry
from tests.doctor.model_source import PLACE, batch_of
from tests.doctor.replica_cluster import logs


class Listed:
    """A replica that is a list, and notes where it was read from and how far."""

    def __init__(self, name: int, entries: list[Entry], start: int = 0) -> None:
        self.name = name
        self.reads: list[tuple[int, int]] = []
        self._batches = [batch_of(entry) for entry in entries]
        self._start = start
        self._end = entries[-1].offset + 1

    def find_position(self) -> Position:
        return Position(log_start=self._start, high_watermark=self._end, log_end=self._end)

    def read(self, start: int) -> Iterator[Answer]:
        wanted = [batch for batch in self._batches if batch.base_offset >= start]
        self.reads.append((start, start))
        for first in range(0, len(wanted), 3):
            some = tuple(wanted[first : first + 3])
            self.reads[-1] = (start, some[-1].next_offset)
            yield Answer(batches=some, aborted=(), stable=self._end)
        yield Answer(batches=(), aborted=(), stable=self._end)

    def list_open(self) -> dict[int, int]:
        return {}


def examine(*sources: Listed, limits: Limits) -> list[Finding]:
    examiner = Examiner(PLACE, sources, list_coordinated=frozenset, wait_s_max=0.0, limits=limits)
    return examiner.examine().findings


@pytest.mark.parametrize("seed", range(4))
def test_the_same_findings(seed: int) -> None:
    """Whatever the ranges, and however few keys fit into memory."""
    ours, theirs = logs(seed, length=400, keys=60)
    plain = examine(Listed(1, ours), Listed(2, theirs), limits=Limits())
    assert plain
    for keys_max, size in ((20, 16), (5, 64), (50, 1), (399, 100)):
        limits = Limits(keys_max=keys_max, range_offsets=size)
        found = examine(Listed(1, ours), Listed(2, theirs), limits=limits)
        assert sorted(map(str, found)) == sorted(map(str, plain)), (keys_max, size)


def test_what_is_equal_is_read_once() -> None:
    """Ten times as many keys as memory holds, and one that differs: its range and the tail are read again."""
    entries = [Entry(offset=offset, key=f"k{offset}", value="v") for offset in range(1000)]
    copies = [Listed(1, entries), Listed(2, [*entries[:420], *entries[421:]])]
    (finding,) = examine(*copies, limits=Limits(keys_max=100, range_offsets=50))
    assert (finding.replica, finding.key) == (1, b"k420")
    whole, differing, tail, *rest, confirmed = copies[0].reads
    assert (whole, differing[0], tail) == ((0, 1000), 400, (1000, 1000))
    assert differing[1] <= 453
    # One of them tells what ranges that are equal say of the key; then both are read for what they have of it.
    assert [start for start, _ in rest] == [0, 450]
    assert confirmed == (0, 1000)
    assert [start for start, _ in copies[1].reads] == [0, 400, 1000, 0]


def test_equal_replicas_are_read_once() -> None:
    """And nothing of them is held in memory but a number for each range."""
    entries = [Entry(offset=offset, key=f"k{offset}", value="v") for offset in range(1000)]
    copies = [Listed(1, entries), Listed(2, entries)]
    assert examine(*copies, limits=Limits(keys_max=1, range_offsets=50)) == []
    assert [each.reads for each in copies] == [[(0, 1000), (1000, 1000)]] * 2


def test_a_delete_that_one_of_them_has_still() -> None:
    """What it deletes lies in a range that is equal: with it the key is gone, without it the key is there."""
    value = Entry(offset=1, key="k", value="v")
    delete = Entry(offset=25, key="k", value=None)
    other = [Entry(offset=offset, key="o", value="1") for offset in range(30, 60)]
    copies = [Listed(1, [value, delete, *other]), Listed(2, [value, *other])]
    (finding,) = examine(*copies, limits=Limits(keys_max=2, range_offsets=10))
    assert (finding.replica, finding.key, finding.offsets) == (2, b"k", (1,))


def test_narrowing() -> None:
    """Neighbours together, what lies between apart; the tail begins with the range that not all have come through."""
    ours = Prints(end=75, stable=75, by_range={0: 1, 2: 5, 3: 6, 6: 4, 7: 9})
    theirs = Prints(end=80, stable=80, by_range={0: 1, 2: 4, 6: 4, 7: 8})
    narrowed = narrow([ours, theirs], 5, size=10)
    assert narrowed.spans == [(20, 40), (70, math.inf)]
    assert (narrowed.rest, narrowed.end) == ([(5, 20), (40, 70)], 75)
    alike = narrow([ours, ours], 5, size=10)
    assert (alike.spans, alike.rest) == ([(70, math.inf)], [(5, 70)])
    # What was written after fingerprints were asked for has none: it is not equal for that.
    grown = replace(theirs, end=40, stable=95)
    narrowed = narrow([grown, replace(ours, end=40, stable=90)], 5, size=10)
    assert (narrowed.spans, narrowed.rest, narrowed.end) == ([(20, 40), (40, math.inf)], [(5, 20)], 90)


def test_prints_do_not_depend_on_how_a_log_was_read() -> None:
    """In pieces they add up to the whole; another seed gives others."""
    ours, _ = logs(1, length=200, keys=30)
    source = Listed(1, ours)
    whole = print_source(source, 0, None, size=20, seed=7)
    pieces: dict[int, int] = {}
    for start, end in ((0, 40), (40, 180), (180, 220)):
        pieces |= print_source(source, start, end, size=20, seed=7).by_range
    assert (whole.stable, pieces) == (201, whole.by_range)
    assert print_source(source, 0, None, size=20, seed=8).by_range != whole.by_range
