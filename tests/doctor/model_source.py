"""Replicas of the lab's model as the doctor reads them: real batches, in small answers, with its own index."""

from collections.abc import Iterator

from holdfast.client.aborted import AbortedTransaction
from holdfast.client.groups import TopicPartition
from holdfast.doctor.examine import Examination, Examiner, Limits
from holdfast.doctor.source import Answer, Position
from holdfast.lab.engines.model import Model
from holdfast.lab.engines.replica import Replica
from holdfast.records.batch import BatchView, Codec, validate
from holdfast.records.build import Record, build_batch
from holdfast.records.control import ControlType, control_batch
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.kafka_policy import KafkaRules
from holdfast.rules.transaction import NO_INSTANCE, Outcome

PLACE = TopicPartition("t", 0)
BATCHES_PER_ANSWER = 3


class ModelSource:
    """Implements `source.Source`."""

    def __init__(self, replica: Replica) -> None:
        self.name = replica.id
        self._replica = replica

    def find_position(self) -> Position:
        """As the model has it."""
        return Position(
            log_start=0, high_watermark=self._replica.high_watermark, log_end=self._replica.log_end
        )

    def read(self, start: int) -> Iterator[Answer]:
        """A few batches at a time; the index tells of what overlaps them."""
        stable = self._replica.last_stable_offset
        entries = [entry for entry in self._entries() if start <= entry.offset < stable]
        for first in range(0, len(entries), BATCHES_PER_ANSWER):
            some = entries[first : first + BATCHES_PER_ANSWER]
            yield Answer(
                batches=tuple(batch_of(entry) for entry in some),
                aborted=self._aborted(some[0].offset, some[-1].offset),
                stable=stable,
            )
        yield Answer(batches=(), aborted=(), stable=stable)

    def list_open(self) -> dict[int, int]:
        """From the replica's producers."""
        rules = self._replica.rules
        if not isinstance(rules, KafkaRules):
            return {}
        return {
            number: producer.transaction_first_offset
            for number, producer in rules.transactions.producers.items()
            if producer.transaction_first_offset is not None
        }

    def _entries(self) -> list[Entry]:
        if isinstance(self._replica.rules, KafkaRules):
            return self._replica.entries
        return self._replica.read(Isolation.READ_COMMITTED)

    def _aborted(self, first: int, last: int) -> tuple[AbortedTransaction, ...]:
        rules = self._replica.rules
        if not isinstance(rules, KafkaRules):
            return ()
        return tuple(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in rules.transactions.aborted
            if each.first_offset <= last and each.last_offset >= first
        )


def batch_of(entry: Entry) -> BatchView:
    """An entry as a broker stores it."""
    if entry.marker is not None and not entry.empty:
        return validate(
            control_batch(
                ControlType.COMMIT if entry.marker is Outcome.COMMITTED else ControlType.ABORT,
                base_offset=entry.offset,
                producer_id=entry.producer_id,
                producer_epoch=max(0, entry.producer_epoch),
            )
        )
    records = []
    if not entry.empty:
        assert entry.key is not None
        value = None if entry.value is None else entry.value.encode()
        records = [Record(key=entry.key.encode(), value=value)]
    codecs = list(Codec)
    return validate(
        build_batch(
            records,
            base_offset=entry.offset,
            codec=codecs[entry.offset % len(codecs)],
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            transactional=entry.transactional,
            control=entry.marker is not None,
            max_timestamp=0 if entry.empty else None,
        )
    )


def examine(model: Model, *, keys_max: int = 1000, range_offsets: int = 1000) -> Examination:
    """The doctor on the replicas that are up; nobody is waited for, because here nothing moves by itself."""
    live = [replica for _, replica in sorted(model.replicas.items()) if replica.alive and not replica.halted]
    opened = {each.id for each in model.producers.values() if each.instance != NO_INSTANCE and each.has_data}
    examiner = Examiner(
        PLACE,
        [ModelSource(replica) for replica in live],
        list_coordinated=lambda: opened,
        wait_s_max=0.0,
        limits=Limits(keys_max=keys_max, range_offsets=range_offsets),
    )
    return examiner.examine()
