"""Holdfast's answers behind the policy interface: absence never decides, removal waits for every replica."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.rules import survival, visibility
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.log_transactions import LogTransactions
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.policy import CompactionConfig, Fate, LogView, Pass
from holdfast.rules.removal import Cleaned
from holdfast.rules.removal_replica import ReplicaState
from holdfast.rules.transaction import Outcome


@dataclass(slots=True, kw_only=True)
class RemovalRecord:
    """What a replica's manifest keeps of the removal protocol; it changes with the log in one swap."""

    state: ReplicaState

    def publish(self, cleaned: Cleaned, now_ms: int) -> None:
        """A rewritten log is in place: say how far it is clean."""
        self.state = self.state.clean_to(cleaned, now_ms)


class CoordinatedRules:
    """One replica under coordination."""

    __slots__ = ("config", "record", "transactions")

    def __init__(self, config: CompactionConfig, record: RemovalRecord) -> None:
        self.config = config
        self.record = record
        self.transactions = LogTransactions()

    def append(self, entry: Entry) -> None:
        """Follow one batch; a lost outcome is noticed here at the latest when the producer goes on."""
        self.transactions.append(entry)

    def caught_up(self, leader_last_stable_offset: int) -> None:
        """A lost outcome of a producer that does not go on is noticed here."""
        self.transactions.require_decided(leader_last_stable_offset)

    def replicated_to(self, high_watermark: int) -> None:
        """Outcomes below the high watermark are final."""
        self.transactions.unstable.replicated_to(high_watermark)

    def last_stable_offset(self, high_watermark: int) -> int:
        """First offset of the oldest instance without a final outcome, else the high watermark."""
        return last_stable_offset(high_watermark, self.transactions.unstable.first())

    def visible(self, entries: Iterable[Entry], *, end: int, isolation: Isolation) -> Iterator[Entry]:
        """Every transactional batch needs a positive outcome."""
        return visibility.visible(
            entries, end=end, instances=self.transactions.instances, isolation=isolation
        )

    def outcome(self, entry: Entry) -> Outcome:
        """Settled data is plain and committed; other data asks its instance."""
        if not entry.transactional:
            return Outcome.COMMITTED
        return self.transactions.instances.outcome(entry.instance)

    def expire(self, now_ms: int) -> None:
        """Nothing that decides a record's fate is forgotten by time."""

    def pass_end(self, log: LogView) -> int | None:
        """Up to the LSO, not by whole segments; due also when only something may be forgotten."""
        return survival.pass_end(log, bounds=self._bounds(log.now_ms), config=self.config)

    def clean(self, log: LogView, end: int) -> Pass:
        """Settle, compact, forget what the group allows, and say how far this replica is clean now."""
        done = survival.clean(
            log, end, instances=self.transactions.instances, bounds=self._bounds(log.now_ms)
        )
        for fate, entry in done.fates:
            if fate is Fate.OUTCOME:
                self.transactions.instances.forget(entry.instance)
        self.record.publish(Cleaned(mcco=end, mxfo=end), log.now_ms)
        return done

    def settle(self, log: LogView) -> Pass:
        """Apply outcomes up to the LSO, and say so."""
        end = log.last_stable_offset
        done = survival.settle(log.entries, end, instances=self.transactions.instances)
        self.record.publish(Cleaned(mxfo=end), log.now_ms)
        return done

    def _bounds(self, now_ms: int) -> survival.Forgettable:
        state = self.record.state
        return survival.forgettable(
            state.removable,
            clean=state.clean_coverage,
            covered=state.coverage,
            now_ms=now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
        )
