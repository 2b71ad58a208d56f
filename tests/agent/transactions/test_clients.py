"""Real clients, reading committed records past what was aborted."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.agent import requests
from tests.agent.serving import AsyncRawClient
from tests.agent.transactions.driving import TOPIC, TV2, Producer
from tests.process import HoldfastProcess

STRETCHES = 50
COMMITTED_AT = STRETCHES * 2
END = STRETCHES * 4 + 1
SECONDS_MAX = 20.0
FETCH_BYTES_MAX = 1000
"""Less than an aborted batch has: each stretch needs a fetch of its own."""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """A log of 50 aborted transactions of two records, one committed record, and 50 aborted ones again."""

    async def write(port: int) -> None:
        client = await AsyncRawClient.connect(port)
        await client.call(requests.create_topic(TOPIC))
        producer = Producer(client, versions=TV2)
        assert await producer.init() == 0
        for number in range(2 * STRETCHES + 1):
            is_committed = number == STRETCHES
            await producer.write(*([b"committed"] if is_committed else [bytes(800), bytes(800)]))
            assert await producer.end(commit=is_committed) == 0
        await client.close()

    with HoldfastProcess(tmp_path_factory.mktemp("aborted") / "data") as process:
        asyncio.run(write(process.port))
        yield process


def by_confluent(bootstrap: str) -> tuple[list[int], int]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": FETCH_BYTES_MAX,
            "enable.auto.commit": False,
        }
    )
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        found: list[int] = []
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message.offset())
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                if message.offset() >= END:
                    return found, message.offset()
            else:
                raise AssertionError(error)
        raise AssertionError(f"stuck after {found}")


def by_kafka_python(bootstrap: str) -> tuple[list[int], int]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
        enable_auto_commit=False,
    )
    with closing(consumer):
        place = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        found: list[int] = []
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline and consumer.position(place) < END:
            for messages in consumer.poll(timeout_ms=200).values():
                found += [message.offset for message in messages]
        return found, consumer.position(place)


def by_aiokafka(bootstrap: str) -> tuple[list[int], int]:
    async def main() -> tuple[list[int], int]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES_MAX,
            enable_auto_commit=False,
        )
        async with consumer:
            place = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            found: list[int] = []
            deadline = time.monotonic() + SECONDS_MAX
            while time.monotonic() < deadline and await consumer.position(place) < END:
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    found += [message.offset for message in messages]
            return found, await consumer.position(place)

    return asyncio.run(main())


@pytest.mark.parametrize("consume", [by_confluent, by_kafka_python, by_aiokafka])
def test_clients_pass_aborted_stretches(
    process: HoldfastProcess, consume: Callable[[str], tuple[list[int], int]]
) -> None:
    """One record is there to be read, and the end is reached; librdkafka would give up on an empty answer."""
    assert consume(process.bootstrap) == ([COMMITTED_AT], END)
