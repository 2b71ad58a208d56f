"""The clients that write on the real log, and the history that they have been acknowledged."""

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, TV2
from holdfast.lab import steps
from holdfast.lab.engines.engine import StepError
from holdfast.lab.engines.holdfast_cluster import TOPIC, LabCluster
from holdfast.records.record import Record
from holdfast.rules.entry import Entry
from holdfast.rules.producer import NO_PRODUCER_ID
from holdfast.rules.transaction import NO_INSTANCE, Outcome

TRANSACTION_MS_MAX = 900_000
"""Transactions time out by the real clock, and somebody may be reading step by step."""


class Writers:
    """One producer without transactions, and one for each transactional id that the scenario names."""

    def __init__(self, cluster: LabCluster, clients: Cluster) -> None:
        self._cluster = cluster
        self._clients = clients
        self._plain = Producer(clients, TOPIC)
        self._transactional: dict[str, TransactionalProducer] = {}
        self._instances: dict[str, int] = {}
        """The instance of each transaction that is open, NO_INSTANCE before its first record."""
        self.history: list[Entry] = []
        self.by_offset: dict[int, Entry] = {}

    def name_of(self, producer_id: int) -> str:
        """What the scenario calls a producer."""
        return next(
            name for name, known in self._transactional.items() if known.identity.producer_id == producer_id
        )

    def marker_of(self, instance: int) -> Entry:
        """How an instance ended, as the history has it."""
        return next(entry for entry in self.history if entry.marker and entry.instance == instance)

    def produce(self, step: steps.Produce, *, timestamp_ms: int) -> None:
        """One record, acknowledged by all that are in sync."""
        value = None if step.value is None else step.value.encode()
        records = [Record(key=step.key.encode(), value=value, timestamp_ms=timestamp_ms)]
        instance, producer_id = NO_INSTANCE, NO_PRODUCER_ID
        if step.producer is None:
            self._plain.send({0: records})
            offset = self._plain.written[0].last
        else:
            producer = self._find_open(step.producer)
            offset = producer.send(TOPIC, 0, records)
            producer_id = producer.identity.producer_id
            found = self._cluster.cluster.plane.find_open_instances(*self._cluster.key)
            instance = self._instances[step.producer] = found[producer_id].instance
        entry = Entry(
            offset=offset,
            key=step.key,
            value=step.value,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            transactional=step.producer is not None,
            instance=instance,
        )
        self.history.append(entry)
        self.by_offset[offset] = entry

    def begin(self, step: steps.Begin) -> None:
        """Open a transaction, under the protocol that the scenario wants."""
        if step.producer in self._instances:
            raise StepError(f"producer {step.producer} has a transaction open already")
        if step.producer not in self._transactional:
            self._transactional[step.producer] = producer = TransactionalProducer(
                self._clients,
                step.producer,
                timeout_ms=TRANSACTION_MS_MAX,
                generation=TV2 if step.version == TV2.level else TV1,
            )
            producer.init()
        self._transactional[step.producer].begin()
        self._instances[step.producer] = NO_INSTANCE

    def end(self, step: steps.End) -> None:
        """Commit or abort. The log keeps outcomes beside the records: they take no offset of their own."""
        producer = self._find_open(step.producer)
        if step.outcome is Outcome.COMMITTED:
            producer.commit()
        else:
            producer.abort()
        instance = self._instances.pop(step.producer)
        data = [entry for entry in self.history if entry.instance == instance != NO_INSTANCE]
        if data:
            self.history.append(
                Entry(
                    offset=data[-1].offset,
                    marker=step.outcome,
                    producer_id=data[-1].producer_id,
                    transactional=True,
                    instance=instance,
                )
            )

    def _find_open(self, name: str) -> TransactionalProducer:
        if name not in self._instances:
            raise StepError(f"producer {name} has no transaction open")
        return self._transactional[name]
