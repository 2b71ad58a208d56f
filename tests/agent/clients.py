"""Three real clients behind one face: send records, read records, everything checked on the way."""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS_MAX = 20.0

Found = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]
"""Key, value, headers and timestamp."""


class Client(Protocol):
    """What the tests need of a client."""

    def produce(self, topic: str, records: Found, *, codec: str = "none", partition: int = 0) -> list[int]:
        """Send all in one go; the offsets that were acknowledged."""
        ...

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Found:
        """Read `count` records from an offset on, by assignment."""
        ...


class Confluent:
    """confluent-kafka, which is librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, records: Found, *, codec: str = "none", partition: int = 0) -> list[int]:
        # An error that is raised in a callback is never freed by confluent-kafka, and the producer neither.
        reports: list[tuple[Any, Any]] = []
        producer = self.producer({"compression.type": codec, "linger.ms": 50})
        for key, value, headers, timestamp in records:
            producer.produce(
                topic,
                key=key,
                value=value,
                headers=headers,
                timestamp=timestamp,
                partition=partition,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
        assert producer.flush(SECONDS_MAX) == 0
        return [delivered(error, message) for error, message in reports]

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Found:
        with closing(self.consumer()) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            messages = consume(consumer, count)
            assert [message.offset() for message in messages] == list(range(offset, offset + count))
            return [
                (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
                for message in messages
            ]

    def producer(self, config: dict[str, Any] | None = None) -> Any:
        return confluent_kafka.Producer({"bootstrap.servers": self._bootstrap, **(config or {})})

    def consumer(self, config: dict[str, Any] | None = None) -> Any:
        defaults = {"bootstrap.servers": self._bootstrap, "group.id": "g", "enable.auto.commit": False}
        return confluent_kafka.Consumer({**defaults, "auto.offset.reset": "error", **(config or {})})

    def admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self._bootstrap})


class KafkaPython:
    """kafka-python, which finds only gzip among the installed packages."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, records: Found, *, codec: str = "none", partition: int = 0) -> list[int]:
        with closing(
            self.producer(compression_type=None if codec == "none" else codec, linger_ms=50)
        ) as producer:
            sent = [
                producer.send(
                    topic,
                    key=key,
                    value=value,
                    headers=headers,
                    timestamp_ms=timestamp,
                    partition=partition,
                )
                for key, value, headers, timestamp in records
            ]
            producer.flush(SECONDS_MAX)
            return [future.get(SECONDS_MAX).offset for future in sent]

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Found:
        with closing(self.consumer()) as consumer:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            found: list[Any] = []
            deadline = time.monotonic() + SECONDS_MAX
            while len(found) < count and time.monotonic() < deadline:
                for messages in consumer.poll(timeout_ms=500).values():
                    found += messages
            assert [message.offset for message in found[:count]] == list(range(offset, offset + count))
            return [(one.key, one.value, list(one.headers), one.timestamp) for one in found[:count]]

    def producer(self, **config: Any) -> Any:
        return kafka.KafkaProducer(bootstrap_servers=self._bootstrap, **config)

    def consumer(self, **config: Any) -> Any:
        config.setdefault("enable_auto_commit", False)
        return kafka.KafkaConsumer(bootstrap_servers=self._bootstrap, auto_offset_reset="none", **config)


class Aiokafka:
    """aiokafka, driven from its own event loop."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(self, topic: str, records: Found, *, codec: str = "none", partition: int = 0) -> list[int]:
        async def main() -> list[int]:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                linger_ms=50,
            ) as producer:
                sent = [
                    await producer.send(
                        topic,
                        key=key,
                        value=value,
                        headers=headers,
                        timestamp_ms=timestamp,
                        partition=partition,
                    )
                    for key, value, headers, timestamp in records
                ]
                return [(await future).offset for future in sent]

        return asyncio.run(main())

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> Found:
        async def main() -> Found:
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap, enable_auto_commit=False, auto_offset_reset="none"
            ) as consumer:
                place = aiokafka.TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, offset)
                found: list[Any] = []
                async with asyncio.timeout(SECONDS_MAX):
                    while len(found) < count:
                        found.append(await consumer.getone())
                assert [one.offset for one in found] == list(range(offset, offset + count))
                return [(one.key, one.value, list(one.headers), one.timestamp) for one in found]

        return asyncio.run(main())


CLIENTS: dict[str, Callable[[str], Client]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
"""By bootstrap address."""

CODECS = {
    "confluent-kafka": ("none", "gzip", "snappy", "lz4", "zstd"),
    "kafka-python": ("none", "gzip"),
    "aiokafka": ("none", "gzip", "snappy", "lz4", "zstd"),
}
"""What each client offers here: kafka-python finds no package for the others."""


def eventually(ask: Callable[[], Any], expected: Any) -> None:
    """Kafka's brokers learn of a change after its controller has answered."""
    deadline = time.monotonic() + SECONDS_MAX
    while (found := ask()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def create_topic(admin: Any, topic: str, partitions: int = 1, **config: str) -> None:
    """A topic of one replica, known to the broker that was asked; configs have underscores for dots."""
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(SECONDS_MAX)
    eventually(lambda: partitions_of(admin, topic), partitions)


def partitions_of(admin: Any, topic: str) -> int:
    """How many partitions a topic has, by confluent-kafka's admin client; 0 if there is none."""
    found = admin.list_topics(timeout=SECONDS_MAX).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def delivered(error: Any, message: Any) -> int:
    assert error is None, error
    return int(message.offset())


def consume(consumer: Any, count: int) -> list[Any]:
    """Messages of a confluent consumer; an error among them fails the test."""
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=1.0):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) == count
    return found
