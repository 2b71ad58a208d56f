"""Apache Kafka's log cleaner: when it makes a pass, and what survives one (3.9.2 to 4.3).

Safety rests on time alone. A tombstone or a marker whose data is gone is stamped with a delete horizon by the
first pass that finds it so, and dropped by the first pass after that horizon; nobody asks the other replicas.
"""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.rules.entry import Entry
from holdfast.rules.kafka_transactions import AbortedTransaction, KafkaTransactions
from holdfast.rules.policy import CompactionConfig, Fate, LogView, Pass
from holdfast.rules.transaction import Outcome


def pass_end(log: LogView, config: CompactionConfig) -> int | None:
    """Where the pass ends that the cleaner would make now, or None: no pass without enough new dirty batches.

    Whole segments only: up to the one that holds the LSO, the active one, or the first too young.
    """
    *closed, active = log.segments
    bound = min(log.last_stable_offset, active.base)
    if config.min_compaction_lag_ms > 0:
        young = log.now_ms - config.min_compaction_lag_ms
        bound = min([bound, *(segment.base for segment in closed if segment.largest_timestamp_ms > young)])
    end = max((segment.base for segment in log.segments if segment.base <= bound), default=0)
    dirty = [segment for segment in closed if log.first_dirty <= segment.base < end]
    cleanable = sum(segment.batches for segment in dirty)
    if cleanable == 0:
        return None
    clean = sum(1 for entry in log.entries if entry.offset < log.first_dirty)
    overdue = log.now_ms - dirty[0].first_timestamp_ms > config.max_compaction_lag_ms
    if overdue or cleanable / (clean + cleanable) > config.min_cleanable_dirty_ratio:
        return end
    return None


def clean(log: LogView, end: int, *, transactions: KafkaTransactions, config: CompactionConfig) -> Pass:
    """One pass over [0, end). Rewrites the transaction index too, as the cleaner does."""
    done = Pass()
    walk = _TransactionWalk(transactions.aborted)
    newest = _newest_offsets(log.entries, log.first_dirty, end, transactions.aborted)
    horizon_ms = log.now_ms + config.delete_retention_ms
    for entry in log.entries:
        if entry.offset >= end:
            break
        discardable = walk.read(entry)
        dropped = _fate(entry, discardable, newest, log.now_ms)
        if dropped is None and not entry.empty:
            deletable = entry.is_tombstone or (entry.marker is not None and discardable)
            if deletable and entry.horizon_ms is None:
                done.entries.append(replace(entry, horizon_ms=horizon_ms))
                done.fates.append((Fate.STAMPED, entry))
            else:
                done.entries.append(entry)
            continue
        # RETAIN_EMPTY: an active producer's newest batch, and the last batch of the round (KAFKA-17076).
        keeps_header = transactions.is_newest_of_producer(entry) or entry.offset == end - 1
        if keeps_header:
            done.entries.append(replace(entry, empty=True, key=None, value=None, horizon_ms=None))
        if dropped is not None and not entry.empty:
            done.fates.append((dropped, entry))
        elif not keeps_header:
            done.fates.append((Fate.EMPTY_BATCH, entry))
    transactions.aborted = walk.kept + [a for a in transactions.aborted if a.last_offset >= end]
    return done


def _fate(entry: Entry, discardable: bool, newest: dict[str, int], now_ms: int) -> Fate | None:
    """Why the record goes now, or None if it stays."""
    expired = entry.horizon_ms is not None and entry.horizon_ms <= now_ms
    if entry.marker is not None:
        return Fate.OUTCOME if discardable and expired else None
    if discardable:
        return Fate.ABORTED
    if entry.empty:
        return None
    if entry.key is None or entry.offset < newest.get(entry.key, -1):
        return Fate.SHADOWED
    return Fate.TOMBSTONE if entry.value is None and expired else None


def _newest_offsets(
    entries: Sequence[Entry], first_dirty: int, end: int, aborted: Sequence[AbortedTransaction]
) -> dict[str, int]:
    """The cleaner's offset map: built from the dirty section only, without aborted data."""
    newest: dict[str, int] = {}
    for entry in entries:
        if entry.offset >= end:
            break
        if entry.offset < first_dirty or entry.marker is not None or entry.empty or entry.key is None:
            continue
        if not any(transaction.covers(entry) for transaction in aborted):
            newest[entry.key] = entry.offset
    return newest


class _TransactionWalk:
    """Which batches of transactions a pass has met so far: a marker may go only when its data went before."""

    __slots__ = ("_aborting", "_committing", "_index", "kept")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._index = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committing: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def read(self, entry: Entry) -> bool:
        """Whether the batch is discardable: aborted data, or a marker none of whose data was met."""
        while self._index and self._index[-1].first_offset <= entry.offset:
            transaction = self._index.pop()
            self._aborting.setdefault(transaction.producer_id, (transaction, False))
        if entry.marker is not None:
            return entry.empty or self._read_marker(entry)
        if not entry.transactional:
            return False
        aborting = self._aborting.get(entry.producer_id)
        if aborting is None:
            self._committing.add(entry.producer_id)
            return False
        self._aborting[entry.producer_id] = (aborting[0], True)
        return True

    def _read_marker(self, entry: Entry) -> bool:
        if entry.marker is Outcome.ABORTED:
            transaction, data_met = self._aborting.pop(entry.producer_id, (None, False))
            if transaction is not None and data_met:
                self.kept.append(transaction)
            return not data_met
        data_met = entry.producer_id in self._committing
        self._committing.discard(entry.producer_id)
        return not data_met
