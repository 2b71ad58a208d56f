"""A Kafka replica's account of producers and transactions, built from its own log alone.

The statements R1 to R11 that the comments name are listed in docs/kafka-compaction.md. The heart of the harm
is R3: data joins whatever transaction its producer has open, so a lost marker lets the *next* one decide.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.errors import InvalidTxnState
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.lso import UnstableTransactions
from holdfast.rules.transaction import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One entry of a replica's transaction index: these offsets of this producer are aborted."""

    producer_id: int
    first_offset: int
    last_offset: int

    def covers(self, entry: Entry) -> bool:
        """Whether the index hides this data batch."""
        return (
            entry.transactional
            and entry.producer_id == self.producer_id
            and self.first_offset <= entry.offset <= self.last_offset
        )


@dataclass(slots=True, kw_only=True)
class ActiveProducer:
    """R1, as far as a follower and its cleaner use it: of the five batches only the newest offset matters."""

    epoch: int = -1
    last_data_offset: int | None = None
    last_timestamp_ms: int = -1
    transaction_first_offset: int | None = None

    def move_to(self, epoch: int) -> None:
        """A changed epoch clears the batch metadata; a lower one is only warned about under replication."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_data_offset = None


class KafkaTransactions:
    """Producer state, unstable transactions and transaction index of one replica."""

    __slots__ = ("aborted", "producers", "unstable")

    def __init__(self) -> None:
        self.producers: dict[int, ActiveProducer] = {}
        self.unstable = UnstableTransactions()
        self.aborted: list[AbortedTransaction] = []

    def append(self, entry: Entry) -> None:
        """Follow one batch, as on replication and on recovery: no sequence check, no epoch check."""
        if entry.producer_id < 0 or (entry.marker is not None and entry.empty):
            return  # R6: an empty control batch says nothing: its type was in the record that is gone
        producer = self.producers.get(entry.producer_id)
        if producer is None:
            producer = self.producers[entry.producer_id] = ActiveProducer()
        if entry.marker is None:
            self._append_data(producer, entry)
        else:
            self._append_marker(producer, entry)
        producer.last_timestamp_ms = entry.timestamp_ms

    def _append_data(self, producer: ActiveProducer, entry: Entry) -> None:
        if not entry.transactional and producer.transaction_first_offset is not None:
            raise InvalidTxnState(f"plain batch at {entry.offset} inside a transaction")  # R4
        producer.move_to(entry.producer_epoch)  # R2
        producer.last_data_offset = entry.offset
        if entry.transactional and producer.transaction_first_offset is None:
            # R3: opens one, or else joins the open one whatever its epoch; an empty batch does so too.
            producer.transaction_first_offset = entry.offset
            self.unstable.begin(entry.offset)

    def _append_marker(self, producer: ActiveProducer, entry: Entry) -> None:
        first_offset = producer.transaction_first_offset
        if first_offset is not None:  # R5, R7
            producer.transaction_first_offset = None
            self.unstable.end(first_offset, entry.offset)
            if entry.marker is Outcome.ABORTED:
                self.aborted.append(
                    AbortedTransaction(
                        producer_id=entry.producer_id, first_offset=first_offset, last_offset=entry.offset
                    )
                )
        producer.move_to(entry.producer_epoch)

    def expire(self, now_ms: int, producer_id_expiration_ms: int) -> None:
        """R9: forget idle producers, but never one with an open transaction: so expiry ends no stuck LSO."""
        for producer_id, producer in list(self.producers.items()):
            idle_ms = now_ms - producer.last_timestamp_ms
            if producer.transaction_first_offset is None and idle_ms >= producer_id_expiration_ms:
                del self.producers[producer_id]

    def is_newest_of_producer(self, entry: Entry) -> bool:
        """Whether the cleaner must keep this batch's header for the sake of an active producer."""
        producer = self.producers.get(entry.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset is not None:
            return entry.offset == producer.last_data_offset
        return entry.marker is not None and entry.producer_epoch == producer.epoch

    def hides(self, entry: Entry) -> bool:
        """Whether the transaction index lists this data batch as aborted."""
        return any(aborted.covers(entry) for aborted in self.aborted)

    def visible(self, entries: Iterable[Entry], *, end: int, isolation: Isolation) -> Iterator[Entry]:
        """R11: what a consumer is given; markers of commits have no effect, only the aborted list has."""
        committed_only = isolation is Isolation.READ_COMMITTED and bool(self.aborted)
        for entry in entries:
            if entry.offset >= end:
                return
            if entry.marker is None and not entry.empty and not (committed_only and self.hides(entry)):
                yield entry
