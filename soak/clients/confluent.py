"""confluent-kafka, which is librdkafka: TV1."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka

from soak.clients.client import BATCH_MAX, PATIENCE_SECONDS, POLL_SECONDS, TIMEOUT_MS, Abortable
from soak.history import LogRecord
from soak.txn_history import Place, Write

EXPECTED_FAILURES = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
"""What a crash may tell a consumer, which goes on by itself."""
RECONNECT = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


class Confluent:
    """A producer, and a consumer that is assigned its partition by hand."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                # When all brokers are down the default forgets them, and send_offsets_to_transaction then waits for
                # ever, past its timeout, for the one that was the group's coordinator (librdkafka 5511 and 5456).
                "metadata.recovery.strategy": "none",
                **RECONNECT,
            }
        )
        self._consumer: Any = None
        self._place = Place("", 0)

    def init(self) -> None:
        self._producer.init_transactions(PATIENCE_SECONDS)

    def follow(self, place: Place, group: str) -> int:
        self._place = place
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                **RECONNECT,
            }
        )
        (found,) = self._consumer.committed([confluent_kafka.TopicPartition(*place)], PATIENCE_SECONDS)
        start = max(found.offset, 0)
        self._consumer.assign([confluent_kafka.TopicPartition(*place, start)])
        return start

    def poll(self) -> list[LogRecord]:
        found = []
        for message in self._consumer.consume(BATCH_MAX, timeout=POLL_SECONDS):
            error = message.error()
            if error is None:
                found.append(LogRecord(message.offset(), message.value()))
            elif error.name() not in EXPECTED_FAILURES:
                raise confluent_kafka.KafkaException(error)
        return found

    def rewind(self, offset: int) -> None:
        # Not seek, which is refused while the log is down.
        self._consumer.assign([confluent_kafka.TopicPartition(*self._place, offset)])

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, writes: list[Write]) -> None:
        with _abortable():
            for place, value in writes:
                self._producer.produce(place.topic, value, partition=place.partition)
            self._producer.poll(0)

    def send_offset(self, offset: int) -> None:
        with _abortable():
            self._producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(*self._place, offset)],
                self._consumer.consumer_group_metadata(),
                PATIENCE_SECONDS,
            )

    def commit(self) -> None:
        with _abortable():
            self._producer.commit_transaction(PATIENCE_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_SECONDS)


@contextmanager
def _abortable() -> Iterator[None]:
    """Above all "skipped sequence numbers": an abort drops what is still in the queue, and the next one pays for it."""
    try:
        yield
    except confluent_kafka.KafkaException as failure:
        if failure.args[0].txn_requires_abort():
            raise Abortable(str(failure)) from failure
        raise
