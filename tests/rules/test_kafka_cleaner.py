"""Apache Kafka's cleaner: when it makes a pass and what survives one."""

from typing import Any

import pytest

from holdfast.rules.entry import Entry
from holdfast.rules.kafka_cleaner import clean, pass_end
from holdfast.rules.kafka_transactions import KafkaTransactions
from holdfast.rules.policy import NEVER_MS, CompactionConfig, Fate
from holdfast.rules.transaction import Outcome

CONFIG = CompactionConfig(
    delete_retention_ms=100, min_cleanable_dirty_ratio=0.0, producer_id_expiration_ms=1000
)


class Cleaner:
    """One replica's cleaner over a log that grows."""

    def __init__(self, log: Any, config: CompactionConfig = CONFIG) -> None:
        self.log = log
        self.config = config
        self.transactions = KafkaTransactions()
        self.followed = 0
        self.first_dirty = 0

    def make_pass(self, now_ms: int) -> list[tuple[Fate, int]]:
        """A pass over everything, after one more filler record that rolls the segment."""
        self.log.data("filler", "x", timestamp_ms=now_ms)
        for entry in self.log.entries:
            if entry.offset >= self.followed:
                self.transactions.append(entry)
        self.followed = self.log.next_offset
        self.transactions.expire(now_ms, self.config.producer_id_expiration_ms)
        view = self.log.view(now_ms=now_ms, first_dirty=self.first_dirty)
        done = clean(view, self.log.next_offset, transactions=self.transactions, config=self.config)
        self.first_dirty = self.log.next_offset
        self.log.entries = done.entries
        return [(fate, entry.offset) for fate, entry in done.fates if entry.key != "filler"]

    def at(self, offset: int) -> Entry | None:
        """What the log holds at an offset."""
        return next((entry for entry in self.log.entries if entry.offset == offset), None)


def test_a_tombstone_is_stamped_first_and_dropped_after_its_retention(log: Any) -> None:
    """KIP-534: the clock starts at the first pass that keeps the tombstone, not at the write."""
    log.data("K", "V")
    log.data("K", None)
    cleaner = Cleaner(log)
    assert cleaner.make_pass(500) == [(Fate.SHADOWED, 0), (Fate.STAMPED, 1)]
    tombstone = cleaner.at(1)
    assert tombstone is not None
    assert tombstone.horizon_ms == 600
    assert cleaner.make_pass(599) == []
    assert cleaner.make_pass(600) == [(Fate.TOMBSTONE, 1)]


def test_a_stamp_is_never_renewed(log: Any) -> None:
    """A longer delete.retention.ms does not reach what is stamped already."""
    log.data("K", None)
    cleaner = Cleaner(log)
    cleaner.make_pass(0)
    cleaner.config = CompactionConfig(delete_retention_ms=10**9, min_cleanable_dirty_ratio=0.0)
    assert cleaner.make_pass(100) == [(Fate.TOMBSTONE, 0)]


def test_aborted_data_goes_at_once_and_shadows_nothing(log: Any) -> None:
    """An aborted newer value neither survives nor removes the older committed one."""
    log.data("K", "V")
    log.txn("K", "aborted")
    log.end(Outcome.ABORTED)
    cleaner = Cleaner(log)
    fates = cleaner.make_pass(0)
    assert (Fate.ABORTED, 1) in fates
    kept = cleaner.at(0)
    assert kept is not None
    assert kept.value == "V"


def test_tv1_keeps_an_idle_producers_marker_until_the_producer_expires(log: Any) -> None:
    """TV1: the newest data batch stays as a header and counts as data, so the marker stays too."""
    log.txn("a", "1")
    log.end(Outcome.ABORTED)
    cleaner = Cleaner(log)
    cleaner.make_pass(0)
    header = cleaner.at(0)
    assert header is not None
    assert header.empty
    for now in (200, 400, 999):
        cleaner.make_pass(now)
        assert cleaner.at(1) is not None
    cleaner.make_pass(1000)  # the producer id has expired: the header goes, the marker was met with data
    assert cleaner.at(0) is None
    assert cleaner.make_pass(1100) == [(Fate.STAMPED, 1)]
    assert cleaner.make_pass(1200) == [(Fate.OUTCOME, 1)]
    assert cleaner.at(1) is None


def test_tv2_turns_an_idle_producers_marker_into_an_empty_batch(log: Any) -> None:
    """TV2: data goes at once; the marker is stamped, becomes a header, and goes when the producer expires."""
    log.txn("a", "1", epoch=0)
    log.end(Outcome.ABORTED, epoch=1)
    cleaner = Cleaner(log)
    assert cleaner.make_pass(0) == [(Fate.ABORTED, 0)]
    assert cleaner.at(0) is None
    assert cleaner.make_pass(10) == [(Fate.STAMPED, 1)]
    assert cleaner.make_pass(110) == [(Fate.OUTCOME, 1)]
    remnant = cleaner.at(1)
    assert remnant is not None
    assert remnant.empty
    assert remnant.horizon_ms is None
    cleaner.make_pass(999)
    assert cleaner.at(1) is not None
    cleaner.make_pass(1000)
    assert cleaner.at(1) is None


def test_a_busy_tv1_producer_loses_its_old_marker_to_retention_alone(log: Any) -> None:
    """A newer batch of the producer takes the header's place, so no expiry guards the old marker."""
    log.txn("a", "1")
    log.end(Outcome.ABORTED)
    log.txn("b", "2")
    log.end(Outcome.COMMITTED)
    cleaner = Cleaner(log)
    cleaner.make_pass(0)
    assert cleaner.at(0) is None
    cleaner.make_pass(10)
    assert (Fate.OUTCOME, 1) in cleaner.make_pass(110)


def test_a_commit_stays_while_any_of_its_data_does(log: Any) -> None:
    """A COMMIT marker whose transaction still holds the newest value of a key is never discardable."""
    log.txn("a", "1")
    log.end(Outcome.COMMITTED)
    cleaner = Cleaner(log)
    for now in (0, 2000, 4000, 8000):
        cleaner.make_pass(now)
    assert cleaner.at(0) is not None
    assert cleaner.at(1) is not None


def test_the_index_keeps_an_aborted_transaction_while_its_data_was_met(log: Any) -> None:
    """The transaction index entry goes one pass after the data."""
    log.txn("a", "1", epoch=0)
    log.end(Outcome.ABORTED, epoch=1)
    cleaner = Cleaner(log)
    cleaner.make_pass(0)
    assert len(cleaner.transactions.aborted) == 1
    cleaner.make_pass(10)
    assert cleaner.transactions.aborted == []


def test_the_last_batch_of_a_round_keeps_its_header(log: Any) -> None:
    """KAFKA-17076: so that the end of the cleaned log does not move back."""
    log.txn("a", "1", epoch=0)
    log.end(Outcome.ABORTED, epoch=1)
    transactions = KafkaTransactions()
    for entry in log.entries:
        transactions.append(entry)
    last = clean(log.view(), 1, transactions=transactions, config=CONFIG)
    assert [(entry.offset, entry.empty) for entry in last.entries] == [(0, True)]
    not_last = clean(log.view(), 2, transactions=transactions, config=CONFIG)
    assert [(entry.offset, entry.empty) for entry in not_last.entries] == [(1, False)]


def test_no_pass_without_new_dirty_batches(log: Any) -> None:
    """Nothing cleans a clean log again: time alone triggers no pass."""
    log.data("a", "1")
    log.data("a", "2")
    assert pass_end(log.view(), CONFIG) == 2
    assert pass_end(log.view(first_dirty=2, now_ms=10**12), CONFIG) is None


def test_the_dirty_ratio_is_a_strict_bound(log: Any) -> None:
    """One dirty batch of two is a ratio of 0.5: no pass at 0.5, a pass below it."""
    log.data("a", "1")
    log.data("b", "2")
    view = log.view(first_dirty=1)
    assert pass_end(view, CompactionConfig(min_cleanable_dirty_ratio=0.5)) is None
    assert pass_end(view, CompactionConfig(min_cleanable_dirty_ratio=0.49)) == 2


def test_no_pass_reaches_the_segment_of_the_lso(log: Any) -> None:
    """Whole segments only: the one that holds the LSO stays as it is."""
    for number in range(6):
        log.data(f"k{number}", "v")
    assert pass_end(log.view(lso=5, segment_batches=2), CONFIG) == 4
    assert pass_end(log.view(lso=1, segment_batches=2), CONFIG) is None


def test_min_compaction_lag_ends_the_pass_at_the_first_young_segment(log: Any) -> None:
    """The first segment with a record younger than the lag stays, and all after it; Long.MAX pauses all."""
    for stamp in (0, 10, 50, 20):
        log.data("a", "v", timestamp_ms=stamp)
    lagging = CompactionConfig(min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=60)
    assert pass_end(log.view(now_ms=100), lagging) == 2
    paused = CompactionConfig(min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=NEVER_MS)
    assert pass_end(log.view(now_ms=10**12), paused) is None


def test_max_compaction_lag_overrides_the_dirty_ratio(log: Any) -> None:
    """An old enough dirty segment is cleaned though little is dirty."""
    for number in range(10):
        log.data(f"k{number}", "v")
    hurried = CompactionConfig(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=50)
    assert pass_end(log.view(first_dirty=9, now_ms=50), hurried) is None
    assert pass_end(log.view(first_dirty=9, now_ms=51), hurried) == 10


@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.ABORTED])
def test_a_pass_never_changes_what_its_own_replica_shows(log: Any, outcome: Outcome) -> None:
    """On one replica alone Kafka's cleaner is right: before and after, the same table."""
    log.data("K", "V")
    log.txn("K", None)
    log.txn("L", "W")
    log.end(outcome)
    log.data("M", "X")
    cleaner = Cleaner(log)
    expected = {"M": "X"} if outcome is Outcome.COMMITTED else {"K": "V", "M": "X"}
    if outcome is Outcome.COMMITTED:
        expected["L"] = "W"
    for now in range(0, 5000, 150):
        cleaner.make_pass(now)
        shown: dict[str, str] = {}
        for entry in log.entries:
            if entry.key is None or entry.key == "filler" or cleaner.transactions.hides(entry):
                continue
            if entry.value is None:
                shown.pop(entry.key, None)
            else:
                shown[entry.key] = entry.value
        assert shown == expected
