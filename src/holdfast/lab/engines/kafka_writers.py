"""The clients that write to real brokers: Holdfast's own, librdkafka as applications have it, or Kafka's in Java."""

import time
from pathlib import Path
from typing import Any, Protocol

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, TV2, generation_of
from holdfast.errors import KafkaRefusal, UsageError
from holdfast.lab.engines.kafka_java import JavaWriters
from holdfast.records.record import Record
from holdfast.rules.transaction import Outcome

TOPIC = "lab"
TRANSACTION_MS_MAX = 900_000
"""The most that brokers allow: somebody may be reading step by step."""
PATIENCE_SECONDS = 60.0
ACKS_LEADER = 1


class Writers(Protocol):
    """Whoever writes: each call returns when it is acknowledged."""

    @property
    def generation(self) -> int | None:
        """Of the transaction protocol, where the client speaks one alone, whatever the scenario says."""

    def produce(self, key: str, value: str | None) -> int:
        """One record outside of transactions; its offset."""

    def begin(self, name: str, version: int) -> None:
        """Open a transaction."""

    def send(self, name: str, key: str, value: str | None) -> int:
        """One record in it; its offset."""

    def end(self, name: str, outcome: Outcome) -> None:
        """Commit or abort it; brokers write the markers a moment later."""

    def close(self) -> None:
        """Nothing more is to be written."""


def open_writers(client: str, clients: Cluster, *, jars: Path, directory: Path) -> Writers:
    """By the name on the command line; a client that is a process of its own has its files in `directory`."""
    if client == "java":
        return JavaWriters(clients.bootstrap, jars, directory, generation=generation_of(clients).level)
    return OwnWriters(clients) if client == "holdfast" else LibrdkafkaWriters(clients.bootstrap)


class OwnWriters:
    """Holdfast's client: either generation of the transaction protocol."""

    generation = None

    def __init__(self, clients: Cluster) -> None:
        self._clients = clients
        # Without a producer id, so that no header of a plain record is kept for its producer's sake.
        self._plain = Producer(clients, TOPIC, acks=ACKS_LEADER)
        self._transactional: dict[str, TransactionalProducer] = {}

    def produce(self, key: str, value: str | None) -> int:
        """Through the leader; the lab itself waits for the others."""
        self._plain.send({0: [_record(key, value)]})
        return self._plain.written[0].last

    def begin(self, name: str, version: int) -> None:
        """Under the protocol that the scenario wants."""
        if name not in self._transactional:
            self._transactional[name] = producer = TransactionalProducer(
                self._clients,
                name,
                timeout_ms=TRANSACTION_MS_MAX,
                generation=TV2 if version == TV2.level else TV1,
            )
            producer.init()
        self._transactional[name].begin()

    def send(self, name: str, key: str, value: str | None) -> int:
        """Acknowledged by all that are in sync."""
        return self._transactional[name].send(TOPIC, 0, [_record(key, value)])

    def end(self, name: str, outcome: Outcome) -> None:
        """By the coordinator."""
        producer = self._transactional[name]
        if outcome is Outcome.COMMITTED:
            producer.commit()
        else:
            producer.abort()

    def close(self) -> None:
        """Its connections are the cluster's."""


class LibrdkafkaWriters:
    """confluent-kafka, as most applications outside of Java have it; the first generation of the protocol alone."""

    generation = None

    def __init__(self, bootstrap: str) -> None:
        try:
            import confluent_kafka  # noqa: PLC0415 - an extra that most people do not have
        except ImportError:
            raise UsageError(
                "--client librdkafka needs the package confluent-kafka: pip install confluent-kafka"
            ) from None
        self._new_producer: Any = confluent_kafka.Producer
        self._error: Any = confluent_kafka.KafkaException
        self._bootstrap = bootstrap
        self._plain = self._producer({"acks": "1"})
        self._transactional: dict[str, Any] = {}

    def produce(self, key: str, value: str | None) -> int:
        """Through the leader."""
        return self._send(self._plain, key, value)

    def begin(self, name: str, version: int) -> None:
        """UsageError for the second generation, which librdkafka does not speak."""
        if version != TV1.level:
            raise UsageError("librdkafka speaks transaction.version 1 only: take --client holdfast")
        if name not in self._transactional:
            self._transactional[name] = producer = self._producer(
                {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS_MAX}
            )
            self._ask(lambda: producer.init_transactions(PATIENCE_SECONDS))
        self._ask(self._transactional[name].begin_transaction)

    def send(self, name: str, key: str, value: str | None) -> int:
        """Acknowledged by all that are in sync."""
        return self._send(self._transactional[name], key, value)

    def end(self, name: str, outcome: Outcome) -> None:
        """By the coordinator."""
        producer = self._transactional[name]
        end = producer.commit_transaction if outcome is Outcome.COMMITTED else producer.abort_transaction
        self._ask(lambda: end(PATIENCE_SECONDS))

    def close(self) -> None:
        """librdkafka ends with its objects."""

    def _producer(self, settings: dict[str, Any]) -> Any:
        quiet = {"log_level": 0, "linger.ms": 0, "message.timeout.ms": int(PATIENCE_SECONDS * 1000)}
        return self._new_producer({"bootstrap.servers": self._bootstrap} | quiet | settings)

    def _send(self, producer: Any, key: str, value: str | None) -> int:
        reports: list[tuple[Any, Any]] = []
        producer.produce(
            TOPIC,
            key=key.encode(),
            value=None if value is None else value.encode(),
            partition=0,
            on_delivery=lambda error, message: reports.append((error, message)),
        )
        producer.flush(PATIENCE_SECONDS)
        error: Any = "no report in time"
        for error, message in reports:
            if error is None:
                return int(message.offset())
        raise KafkaRefusal(f"librdkafka could not write {key}: {error}")

    def _ask(self, question: Any) -> None:
        try:
            question()
        except self._error as failure:
            raise KafkaRefusal(f"librdkafka: {failure}") from failure


def _record(key: str, value: str | None) -> Record:
    return Record(
        key=key.encode(),
        value=None if value is None else value.encode(),
        timestamp_ms=time.time_ns() // 1_000_000,
    )
