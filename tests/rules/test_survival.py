"""What survives a pass on Holdfast."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import OutcomeMissing
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.grace import Coverage
from holdfast.rules.log_transactions import LogTransactions
from holdfast.rules.policy import CompactionConfig, Fate, LogView
from holdfast.rules.removal import Removable
from holdfast.rules.survival import Forgettable, clean, forgettable, pass_end, settle
from holdfast.rules.transaction import Instances, Outcome
from holdfast.rules.visibility import table, visible

NOTHING = Forgettable(tombstones_end=0, outcomes_end=0)
CONFIG = CompactionConfig(min_cleanable_dirty_ratio=0.5, delete_retention_ms=100)


def instances_of(entries: list[Entry]) -> Instances:
    transactions = LogTransactions()
    for entry in entries:
        transactions.append(entry)
    return transactions.instances


def offsets(entries: list[Entry]) -> list[int]:
    return [entry.offset for entry in entries]


def test_the_newest_record_of_each_key_survives(log: Any) -> None:
    """Older values go, also under a tombstone, which itself stays."""
    log.data("K", "1")
    log.data("L", "1")
    log.data("K", "2")
    log.data("L", None)
    done = clean(log.view(), 4, instances=Instances(), bounds=NOTHING)
    assert offsets(done.entries) == [2, 3]


def test_aborted_records_neither_survive_nor_shadow(log: Any) -> None:
    """An aborted delete does not remove the committed value before it."""
    log.data("K", "V")
    log.txn("K", None)
    log.end(Outcome.ABORTED)
    done = clean(log.view(), 3, instances=instances_of(log.entries), bounds=NOTHING)
    assert offsets(done.entries) == [0, 2]


def test_committed_data_becomes_plain(log: Any) -> None:
    """After settling, no batch below the end needs its outcome any more."""
    log.txn("K", "V")
    log.end(Outcome.COMMITTED)
    done = settle(log.entries, 2, instances=instances_of(log.entries))
    assert [entry.transactional for entry in done.entries] == [False, True]
    assert done.count(Fate.SETTLED) == 1


def test_a_missing_outcome_stops_the_pass(log: Any) -> None:
    """A pass never guesses: without an outcome nothing is rewritten."""
    log.txn("K", "V")
    with pytest.raises(OutcomeMissing):
        clean(log.view(), 1, instances=Instances(), bounds=NOTHING)


def test_a_tombstone_stays_at_and_above_its_bound(log: Any) -> None:
    """The bound is exclusive: a tombstone below it goes, one at it stays."""
    log.data("K", None)
    log.data("L", None)
    done = clean(log.view(), 2, instances=Instances(), bounds=Forgettable(tombstones_end=1, outcomes_end=2))
    assert offsets(done.entries) == [1]
    assert done.count(Fate.TOMBSTONE) == 1


def test_an_outcome_stays_at_and_above_mxro(log: Any) -> None:
    """An outcome below MXRO goes without grace, one at it stays, and MTRO has no say in it."""
    log.txn("a", "1", instance=1)
    log.end(Outcome.COMMITTED, instance=1)
    log.txn("b", "2", instance=2)
    log.end(Outcome.COMMITTED, instance=2)
    bounds = Forgettable(tombstones_end=9, outcomes_end=3)
    done = clean(log.view(), 4, instances=instances_of(log.entries), bounds=bounds)
    assert offsets(done.entries) == [0, 2, 3]


@pytest.mark.parametrize(
    ("clean_ms", "covered_ms", "now_ms", "tombstones_end"),
    [
        (0, 0, 99, 0),
        (0, 0, 100, 10),
        (50, 0, 149, 0),
        (50, 0, 150, 10),
        (0, 70, 169, 0),
        (0, 70, 170, 10),
    ],
)
def test_grace_counts_from_the_later_of_clean_and_covered(
    clean_ms: int, covered_ms: int, now_ms: int, tombstones_end: int
) -> None:
    """Neither a replica slow to clean nor a group slow to agree cuts a consumer's grace short."""
    bounds = forgettable(
        Removable(mtro=10, mxro=4),
        clean=Coverage().cover(10, clean_ms),
        covered=Coverage().cover(10, covered_ms),
        now_ms=now_ms,
        delete_retention_ms=100,
    )
    assert bounds == Forgettable(tombstones_end=tombstones_end, outcomes_end=4)


def test_no_time_lets_a_tombstone_go_above_mtro() -> None:
    """However long ago this replica was clean, MTRO bounds what it may forget."""
    bounds = forgettable(
        Removable(mtro=3, mxro=0),
        clean=Coverage().cover(10, 0),
        covered=Coverage().cover(10, 0),
        now_ms=10**15,
        delete_retention_ms=0,
    )
    assert bounds.tombstones_end == 3


def test_a_pass_is_due_by_ratio_by_lag_and_by_deadline(log: Any) -> None:
    """A clean log is visited again when something in it may be forgotten, and only then."""
    log.data("K", None)
    log.data("L", "1")
    dirty = log.view(first_dirty=1)
    assert pass_end(dirty, bounds=NOTHING, config=CONFIG) is None
    assert pass_end(log.view(first_dirty=0), bounds=NOTHING, config=CONFIG) == 2
    hurried = CompactionConfig(max_compaction_lag_ms=10)
    assert pass_end(log.view(first_dirty=1, now_ms=11), bounds=NOTHING, config=hurried) == 2
    log.data("M", "1", timestamp_ms=-1)
    assert pass_end(log.view(first_dirty=2, now_ms=10**9), bounds=NOTHING, config=hurried) is None, "no age"
    idle = log.view(first_dirty=3)
    assert pass_end(idle, bounds=NOTHING, config=CONFIG) is None
    assert pass_end(idle, bounds=Forgettable(tombstones_end=1, outcomes_end=0), config=CONFIG) == 3


def test_no_pass_reaches_the_lso_or_young_records(log: Any) -> None:
    """The pass ends at the LSO, or at the first record within min.compaction.lag.ms."""
    for stamp in (0, 10, 90):
        log.data("K", "v", timestamp_ms=stamp)
    eager = CompactionConfig(min_cleanable_dirty_ratio=0.0)
    assert pass_end(log.view(lso=1), bounds=NOTHING, config=eager) == 1
    lagging = CompactionConfig(min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=50)
    assert pass_end(log.view(now_ms=100), bounds=NOTHING, config=lagging) == 2


keys = st.sampled_from("abc")
values = st.none() | st.sampled_from("xyz")
writes = st.lists(st.tuples(keys, values, st.sampled_from([None, True, False])), max_size=24)


def written(plan: list[tuple[str, str | None, bool | None]]) -> list[Entry]:
    """Plain records, and one-record transactions that commit (True) or abort (False)."""
    entries: list[Entry] = []
    for key, value, commits in plan:
        offset = len(entries)
        if commits is None:
            entries.append(Entry(offset=offset, key=key, value=value))
            continue
        more = {"producer_id": 7, "transactional": True, "instance": offset + 1}
        entries.append(Entry(offset=offset, key=key, value=value, **more))  # type: ignore[arg-type]
        outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        entries.append(Entry(offset=offset + 1, marker=outcome, **more))  # type: ignore[arg-type]
    return entries


def view_of(entries: list[Entry]) -> LogView:
    return LogView(entries=entries, segments=[], first_dirty=0, last_stable_offset=len(entries), now_ms=0)


def shown(entries: list[Entry], instances: Instances, end: int) -> dict[str, str | None]:
    read = visible(entries, end=end, instances=instances, isolation=Isolation.READ_COMMITTED)
    return {key: entry.value for key, entry in table(read).items()}


@settings(max_examples=300)
@given(
    plan=writes, end=st.integers(0, 48), tombstones_end=st.integers(0, 48), outcomes_end=st.integers(0, 48)
)
def test_no_pass_changes_the_table(
    plan: list[tuple[str, str | None, bool | None]], end: int, tombstones_end: int, outcomes_end: int
) -> None:
    """Whatever was written and wherever the pass ends, one replica shows the same before and after."""
    entries = written(plan)
    end = min(end, len(entries))
    bounds = Forgettable(tombstones_end=min(tombstones_end, end), outcomes_end=min(outcomes_end, end))
    instances = instances_of(entries)
    before = shown(entries, instances, len(entries))
    done = clean(view_of(entries), end, instances=instances, bounds=bounds)
    after = done.entries + [entry for entry in entries if entry.offset >= end]
    assert shown(after, instances_of(after), len(entries)) == before
