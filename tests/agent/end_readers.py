"""Three real clients that read a partition to its very end, whatever is missing in it, and find offsets by time."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

from tests.agent.clients import SECONDS_MAX

WAIT_MS_MAX = 50
"""How long a fetch waits for records: these readers come to ends all the time."""

Row = tuple[int, bytes | None, bytes | None]
"""Offset, key and value."""


class EndReader(Protocol):
    """What the tests need of a client."""

    def read(self, topic: str, starts: Sequence[int], end: int) -> list[list[Row]]:
        """From each of the starts on, up to `end`: the client must come to stand exactly there."""
        ...

    def find(self, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        """The first offset at or after each time; None after the last record."""
        ...


class ConfluentReader:
    """confluent-kafka says when it has come to the end of a partition."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": "end-readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": WAIT_MS_MAX,
            # It doubles this whenever an answer has no record for it, and gives up when it cannot: let it be full.
            "fetch.message.max.bytes": 1_000_000_000,
        }

    def read(self, topic: str, starts: Sequence[int], end: int) -> list[list[Row]]:
        with closing(confluent_kafka.Consumer(self._config)) as consumer:
            return [self._read(consumer, topic, start, end) for start in starts]

    def _read(self, consumer: Any, topic: str, start: int, end: int) -> list[Row]:
        rows: list[Row] = []
        deadline = time.monotonic() + SECONDS_MAX
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                rows.append((message.offset(), message.key(), message.value()))
                continue
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            if message.offset() == end:
                consumer.unassign()
                return rows
        raise AssertionError(f"not at {end} of {topic} from {start} on, but {rows}")

    def find(self, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        with closing(confluent_kafka.Consumer(self._config)) as consumer:
            asked = [confluent_kafka.TopicPartition(topic, 0, time_ms) for time_ms in times_ms]
            found = [consumer.offsets_for_times([one], SECONDS_MAX)[0].offset for one in asked]
            return [offset if offset >= 0 else None for offset in found]


class KafkaPythonReader:
    """kafka-python knows its position."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self._config = {
            "bootstrap_servers": bootstrap,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": isolation,
            "fetch_max_wait_ms": WAIT_MS_MAX,
        }

    def read(self, topic: str, starts: Sequence[int], end: int) -> list[list[Row]]:
        place = kafka.TopicPartition(topic, 0)
        with closing(kafka.KafkaConsumer(**self._config)) as consumer:
            consumer.assign([place])
            return [self._read(consumer, place, start, end) for start in starts]

    def _read(self, consumer: Any, place: Any, start: int, end: int) -> list[Row]:
        rows: list[Row] = []
        deadline = time.monotonic() + SECONDS_MAX
        consumer.seek(place, start)
        while time.monotonic() < deadline:
            for messages in consumer.poll(timeout_ms=WAIT_MS_MAX).values():
                rows += [(one.offset, one.key, one.value) for one in messages]
            if consumer.position(place) == end:
                return rows
        raise AssertionError(f"at {consumer.position(place)} of {place}, not at {end}, from {start} on")

    def find(self, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        place = kafka.TopicPartition(topic, 0)
        with closing(kafka.KafkaConsumer(**self._config)) as consumer:
            found = [consumer.offsets_for_times({place: time_ms})[place] for time_ms in times_ms]
            return [one and one.offset for one in found]


class AiokafkaReader:
    """aiokafka, driven from its own event loop."""

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self._config = {
            "bootstrap_servers": bootstrap,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": isolation,
            "fetch_max_wait_ms": WAIT_MS_MAX,
        }

    def read(self, topic: str, starts: Sequence[int], end: int) -> list[list[Row]]:
        async def main() -> list[list[Row]]:
            place = aiokafka.TopicPartition(topic, 0)
            async with aiokafka.AIOKafkaConsumer(**self._config) as consumer:
                consumer.assign([place])
                return [await self._read(consumer, place, start, end) for start in starts]

        return asyncio.run(main())

    async def _read(self, consumer: Any, place: Any, start: int, end: int) -> list[Row]:
        rows: list[Row] = []
        consumer.seek(place, start)
        async with asyncio.timeout(SECONDS_MAX):
            while await consumer.position(place) != end:
                for messages in (await consumer.getmany(place, timeout_ms=WAIT_MS_MAX)).values():
                    rows += [(one.offset, one.key, one.value) for one in messages]
        return rows

    def find(self, topic: str, times_ms: Sequence[int]) -> list[int | None]:
        async def main() -> list[int | None]:
            place = aiokafka.TopicPartition(topic, 0)
            async with aiokafka.AIOKafkaConsumer(**self._config) as consumer:
                consumer.assign([place])
                found = [(await consumer.offsets_for_times({place: time_ms}))[place] for time_ms in times_ms]
                return [one and one.offset for one in found]

        return asyncio.run(main())


END_READERS: dict[str, Callable[[str, str], EndReader]] = {
    "confluent-kafka": ConfluentReader,
    "kafka-python": KafkaPythonReader,
    "aiokafka": AiokafkaReader,
}
"""By bootstrap address and isolation level."""
