"""Making and filling topics, and reading them to their ends, with confluent-kafka."""

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from examples.server import ExampleError, expect
from examples.worker import Worker

SILENCE_S_MAX: Final = 30.0
POLL_S: Final = 0.1


def create(address: str, *topics: str) -> None:
    """Makes topics with as many partitions as the broker gives them."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic) for topic in topics]).values():
        made.result(SILENCE_S_MAX)


def fill(address: str, topic: str, records: Iterable[tuple[str, str]]) -> None:
    """Produces keys and values, and returns when all are durable."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, key=key, value=value, on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(SILENCE_S_MAX)
    if refused or left:
        raise ExampleError(f"{len(refused)} records were refused and {left} not answered: {refused[:1]}")


def read_committed(address: str, *topics: str) -> list[Message]:
    """Every committed record of the topics, in the order of each partition."""
    messages: list[Message] = []
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        places = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=SILENCE_S_MAX).topics[topic].partitions
        ]
        consumer.assign(places)
        unread = {(place.topic, place.partition) for place in places}
        heard = time.monotonic()
        while unread:
            expect(time.monotonic() < heard + SILENCE_S_MAX, f"no answer in {SILENCE_S_MAX:.0f} s")
            for message in consumer.consume(10_000, timeout=0.5):
                heard = time.monotonic()
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(message.error())
    finally:
        consumer.close()
    return messages


def wait_until_read(address: str, group: str, topic: str, *workers: Worker) -> None:
    """Until the group's committed positions are at the end of the topic: then all its transactions are, too."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        partitions = consumer.list_topics(topic, timeout=SILENCE_S_MAX).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        ends = [consumer.get_watermark_offsets(place, SILENCE_S_MAX)[1] for place in places]
        before: list[int] = []
        heard = time.monotonic()
        while before != ends:
            for worker in workers:
                worker.check()
            found = [max(0, place.offset) for place in consumer.committed(places, SILENCE_S_MAX)]
            heard = heard if found == before else time.monotonic()
            expect(time.monotonic() < heard + SILENCE_S_MAX, f"no progress in {SILENCE_S_MAX:.0f} s: {found}")
            before = found
            time.sleep(POLL_S)
    finally:
        consumer.close()
