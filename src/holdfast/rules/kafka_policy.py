"""Kafka's answers behind the policy interface."""

from collections.abc import Iterable, Iterator

from holdfast.rules import kafka_cleaner
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.kafka_transactions import KafkaTransactions
from holdfast.rules.lso import last_stable_offset
from holdfast.rules.policy import CompactionConfig, LogView, Pass
from holdfast.rules.transaction import Outcome


class KafkaRules:
    """One Kafka replica: it believes its own log, and its cleaner asks nobody."""

    __slots__ = ("config", "transactions")

    def __init__(self, config: CompactionConfig) -> None:
        self.config = config
        self.transactions = KafkaTransactions()

    def append(self, entry: Entry) -> None:
        """R2 to R7."""
        self.transactions.append(entry)

    def caught_up(self, leader_last_stable_offset: int) -> None:
        """Kafka compares leader epochs only; a missing marker goes unnoticed (R10)."""

    def replicated_to(self, high_watermark: int) -> None:
        """R8: markers below the high watermark no longer hold the LSO back."""
        self.transactions.unstable.replicated_to(high_watermark)

    def last_stable_offset(self, high_watermark: int) -> int:
        """R8."""
        return last_stable_offset(high_watermark, self.transactions.unstable.first())

    def visible(self, entries: Iterable[Entry], *, end: int, isolation: Isolation) -> Iterator[Entry]:
        """R11."""
        return self.transactions.visible(entries, end=end, isolation=isolation)

    def outcome(self, entry: Entry) -> Outcome:
        """By transaction index and open transactions; with neither, it counts as committed."""
        if not entry.transactional:
            return Outcome.COMMITTED
        if self.transactions.hides(entry):
            return Outcome.ABORTED
        producer = self.transactions.producers.get(entry.producer_id)
        first_open = producer.transaction_first_offset if producer else None
        return Outcome.OPEN if first_open is not None and first_open <= entry.offset else Outcome.COMMITTED

    def expire(self, now_ms: int) -> None:
        """R9."""
        self.transactions.expire(now_ms, self.config.producer_id_expiration_ms)

    def pass_end(self, log: LogView) -> int | None:
        """Whole segments, by dirty ratio and lag."""
        return kafka_cleaner.pass_end(log, self.config)

    def clean(self, log: LogView, end: int) -> Pass:
        """By time alone."""
        return kafka_cleaner.clean(log, end, transactions=self.transactions, config=self.config)

    def settle(self, log: LogView) -> Pass | None:
        """Kafka applies outcomes only when it compacts."""
        return None
