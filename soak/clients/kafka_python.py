"""kafka-python: TV1."""

from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata

from soak.clients.client import BATCH_MAX, PATIENCE_SECONDS, POLL_SECONDS, TIMEOUT_MS
from soak.history import LogRecord
from soak.txn_history import Place, Write

RECONNECT = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 20}


class KafkaPython:
    """A producer, and a consumer that is assigned its partition by hand."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap.split(",")
        self._producer: Any = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            max_block_ms=int(PATIENCE_SECONDS * 1000),
            **RECONNECT,
        )
        self._consumer: Any = None
        self._place = kafka.TopicPartition("", 0)

    def init(self) -> None:
        self._producer.init_transactions()

    def follow(self, place: Place, group: str) -> int:
        self._place = kafka.TopicPartition(*place)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
            max_poll_records=BATCH_MAX,
            **RECONNECT,
        )
        self._consumer.assign([self._place])
        start = self._consumer.committed(self._place) or 0
        self._consumer.seek(self._place, start)
        return start

    def poll(self) -> list[LogRecord]:
        polled = self._consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        return [LogRecord(message.offset, message.value) for message in polled.get(self._place, ())]

    def rewind(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, writes: list[Write]) -> None:
        for place, value in writes:
            self._producer.send(place.topic, value, partition=place.partition)

    def send_offset(self, offset: int) -> None:
        self._producer.send_offsets_to_transaction(
            {self._place: OffsetAndMetadata(offset, "", -1)}, self._consumer.group_metadata()
        )

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()
