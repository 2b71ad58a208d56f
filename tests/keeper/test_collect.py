"""What may go, what has to wait and what is worth its price, decided from what lies on a store."""

from dataclasses import replace
from uuid import UUID

import pytest

from holdfast.control.replicas import StorePhase
from holdfast.keeper.collect import (
    CARRY_JOURNALS,
    Collection,
    JournalFile,
    SnapshotFile,
    StoreFiles,
    UnusedCarried,
    UnusedSegment,
    collect,
    find_journals_end,
)
from holdfast.keeper.limits import KeeperLimits
from holdfast.store.carried import carried_number
from holdfast.store.segment import segment_file

MB = 1 << 20
LIMITS = KeeperLimits(collect_seconds=60.0, collect_bytes_min=16 * MB, snapshot_seconds=900.0)
EMPTY = StoreFiles(
    store=1,
    directory="/stores/1",
    incarnation=1,
    phase=StorePhase.IN_SYNC,
    lease=7,
    segments=[],
    carried=[],
    empty_folders=[],
    journals=[JournalFile(number=1, size_bytes=MB)],
    unsettled_bytes=0,
    covered_to=0,
    snapshot=None,
)
OLD = 1000.0


def journals(*sizes_and_live: tuple[int, int], unused_seconds: float = OLD) -> list[JournalFile]:
    """From number 100 on, a hundred frames each, those before the first that is in use known to be unused."""
    in_use = next((at for at, (_, live) in enumerate(sizes_and_live) if live), len(sizes_and_live) - 1)
    return [
        JournalFile(
            number=100 * (at + 1),
            size_bytes=size,
            live_bytes=live,
            unused_seconds=unused_seconds if at < min(in_use, len(sizes_and_live) - 1) else None,
        )
        for at, (size, live) in enumerate(sizes_and_live)
    ]


def test_an_empty_store_has_nothing_to_collect() -> None:
    """Nor has one with a journal."""
    assert not collect(EMPTY, LIMITS)
    assert not collect(replace(EMPTY, journals=[]), LIMITS)


@pytest.mark.parametrize(("lease", "goes"), [(6, True), (7, False), (8, False)])
def test_only_files_of_older_leases_go(lease: int, goes: bool) -> None:
    """One of the lease in force may be published yet; of a later one nobody here knows anything."""
    file, number = segment_file(UUID(int=5), 0, 0, lease, "a"), carried_number(lease, 3)
    found = replace(
        EMPTY,
        segments=[UnusedSegment(file=file, seconds=OLD)],
        carried=[UnusedCarried(number=number, seconds=OLD)],
    )
    assert collect(found, LIMITS) == (
        Collection(segments=(file,), carried=(number,)) if goes else Collection()
    )


@pytest.mark.parametrize(("seconds", "goes"), [(59.9, False), (60.0, True)])
def test_files_that_were_in_use_a_moment_ago_stay(seconds: float, goes: bool) -> None:
    """Journals, segments and carried files alike."""
    found = replace(
        EMPTY,
        segments=[UnusedSegment(file=segment_file(UUID(int=5), 0, 0, 6, "a"), seconds=seconds)],
        carried=[UnusedCarried(number=carried_number(6, 0), seconds=seconds)],
        journals=journals((MB, 0), (MB, 0), unused_seconds=seconds),
        covered_to=1000,
        snapshot=SnapshotFile(size_bytes=1, age_seconds=0),
    )
    decided = collect(found, LIMITS)
    assert (bool(decided.segments), bool(decided.carried), decided.deletes_journals) == (goes, goes, goes)


@pytest.mark.parametrize(
    ("covered_to", "goes"), [(0, False), (199, False), (200, True), (299, True), (10_000, True)]
)
def test_journals_go_that_are_unused_and_covered(covered_to: int, goes: bool) -> None:
    """All of their frames, which are those below the next one's first."""
    found = replace(EMPTY, journals=journals((MB, 0), (MB, 1), (MB, 0)), covered_to=covered_to)
    assert find_journals_end(found, LIMITS) == 200
    assert collect(found, LIMITS).deletes_journals == goes


def test_the_last_journal_stays() -> None:
    """However unused it is."""
    found = replace(EMPTY, journals=journals((MB, 0), (MB, 0)), covered_to=10_000)
    assert find_journals_end(found, LIMITS) == 200
    assert find_journals_end(EMPTY, LIMITS) == 0


@pytest.mark.parametrize(
    ("waiting", "snapshot", "due"),
    [
        (0, None, False),
        (1, None, True),
        (16 * MB - 1, SnapshotFile(size_bytes=MB, age_seconds=0), False),
        (16 * MB, SnapshotFile(size_bytes=MB, age_seconds=0), True),
        (16 * MB, SnapshotFile(size_bytes=9 * MB, age_seconds=0), False),
        (18 * MB, SnapshotFile(size_bytes=9 * MB, age_seconds=0), True),
        (1, SnapshotFile(size_bytes=9 * MB, age_seconds=899), False),
        (1, SnapshotFile(size_bytes=9 * MB, age_seconds=900), True),
        (0, SnapshotFile(size_bytes=9 * MB, age_seconds=900), False),
    ],
)
def test_a_snapshot_is_written_when_it_is_worth_it(
    waiting: int, snapshot: SnapshotFile | None, due: bool
) -> None:
    """For journals that wait for nothing else: many bytes, or long enough."""
    waits = [(waiting, 0)] if waiting else []
    found = replace(EMPTY, journals=journals(*waits, (MB, MB)), snapshot=snapshot, covered_to=100)
    assert collect(found, LIMITS).needs_snapshot == due
    assert not collect(replace(found, covered_to=200), LIMITS).needs_snapshot


@pytest.mark.parametrize(
    ("last", "unsettled", "due"),
    [(16 * MB - 1, 0, False), (16 * MB, 0, True), (16 * MB, 4 * MB, False), (16 * MB, 4 * MB - 1, True)],
)
def test_the_last_journal_is_ended_when_it_is_large_and_mostly_dead(
    last: int, unsettled: int, due: bool
) -> None:
    """Less than a quarter of it is in use."""
    found = replace(EMPTY, journals=[JournalFile(number=1, size_bytes=last)], unsettled_bytes=unsettled)
    assert collect(found, LIMITS).rolls == due


@pytest.mark.parametrize(
    ("held", "below"),
    [
        ([(64, 15), (1, 0)], 200),
        ([(64, 16), (1, 0)], 0),
        # Too little is freed by it.
        ([(16, 1), (1, 0)], 0),
        # Nothing is gained behind one that stays; but what is dead behind it counts for it, too.
        ([(64, 60), (64, 1), (1, 0)], 0),
        ([(64, 60), (64, 1), (64, 0), (64, 0), (1, 0)], 500),
        ([(64, 1), (64, 60), (1, 0)], 200),
        # What goes as it is pays for nobody.
        ([(200, 0), (64, 30), (1, 0)], 0),
        ([(200, 0), (64, 10), (1, 0)], 300),
        # Far behind, half is little enough, and the size does not matter.
        ([(64, 31), *[(1, 0)] * (CARRY_JOURNALS - 1), (1, 0)], 500),
        ([(64, 31), *[(1, 0)] * (CARRY_JOURNALS - 2), (1, 0)], 0),
        ([(64, 36), *[(1, 0)] * (CARRY_JOURNALS - 1), (1, 0)], 0),
        ([(1, 0), (1, 0)], 0),
    ],
)
def test_what_is_left_in_old_journals_is_carried_if_it_is_little(
    held: list[tuple[int, int]], below: int
) -> None:
    """Journals from the oldest on: sizes and what is in use, in MB; the last one is never carried out of."""
    found = replace(EMPTY, journals=journals(*((size * MB, live * MB) for size, live in held)))
    assert collect(found, LIMITS).carry_below == below


def test_a_store_that_joins_keeps_its_journals() -> None:
    """What it holds has yet to be shown; but what nobody will ever publish goes."""
    file = segment_file(UUID(int=5), 0, 0, 6, "a")
    found = replace(
        EMPTY,
        segments=[UnusedSegment(file=file, seconds=OLD)],
        empty_folders=["f"],
        journals=journals((64 * MB, 0), (64 * MB, MB), (64 * MB, 0)),
        covered_to=10_000,
    )
    assert collect(replace(found, phase=StorePhase.JOINING), LIMITS) == Collection(
        segments=(file,), empty_folders=("f",)
    )
    in_sync = collect(found, LIMITS)
    assert in_sync.deletes_journals
    assert in_sync.rolls
    assert in_sync.carry_below == 300
