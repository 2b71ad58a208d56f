"""Three real clients and a compacted topic: records without a key are refused in words that they know.

`make test-kafka` runs the same tests against Apache Kafka.
"""

import asyncio
from contextlib import closing
from typing import Any

import aiokafka
import pytest
from aiokafka.errors import UnknownError
from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from tests.agent.clients import CLIENTS, SECONDS_MAX, Confluent, Found, KafkaPython, create_topic
from tests.process import Broker

T0 = 1_700_000_000_000
KEYS = (None, b"k", None, b"k")
"""Of the records of one batch."""


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: Broker) -> str:
    """A compacted topic of the test's own."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    create_topic(Confluent(broker.bootstrap).admin(), name, cleanup_policy="compact")
    return name


@pytest.mark.parametrize("idempotent", [False, True])
def test_confluent_knows_which_record_it_was(broker: Broker, topic: str, idempotent: bool) -> None:
    """INVALID_RECORD for those without a key; the others only shared their batch. The producer goes on."""
    reports: list[tuple[Any, Any]] = []

    def note(error: Any, message: Any) -> None:
        reports.append((message.key(), error and error.code()))

    producer = Confluent(broker.bootstrap).producer({"enable.idempotence": idempotent, "linger.ms": 100})
    for key in KEYS:
        producer.produce(topic, b"v", key=key, on_delivery=note)
    assert producer.flush(SECONDS_MAX) == 0
    refused = {None: KafkaError.INVALID_RECORD, b"k": KafkaError._INVALID_DIFFERENT_RECORD}
    assert reports == [(key, refused[key]) for key in KEYS]
    producer.produce(topic, None, key=b"k", on_delivery=note)
    assert producer.flush(SECONDS_MAX) == 0
    assert reports[-1] == (b"k", None)
    assert Confluent(broker.bootstrap).consume(topic, 1)[0][:2] == (b"k", None)


def test_kafka_python_knows_which_record_it_was(broker: Broker, topic: str) -> None:
    """InvalidRecordError with the broker's words; another error for those that only shared the batch."""
    with closing(KafkaPython(broker.bootstrap).producer(linger_ms=100, enable_idempotence=False)) as producer:
        sent = [producer.send(topic, key=key, value=b"v", partition=0) for key in KEYS]
        for key, future in zip(KEYS, sent, strict=True):
            with pytest.raises(kafka_errors.KafkaError) as refusal:
                future.get(SECONDS_MAX)
            if key is None:
                assert isinstance(refusal.value, kafka_errors.InvalidRecordError)
                assert "key" in str(refusal.value)
            else:
                assert "part of a batch" in str(refusal.value)
        assert producer.send(topic, key=b"k").get(SECONDS_MAX).offset == 0


@pytest.mark.parametrize("idempotent", [False, True])
def test_aiokafka_is_refused(broker: Broker, topic: str, idempotent: bool) -> None:
    """It has no name for the code, and does not send the batch again."""

    async def main() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=idempotent
        ) as producer:
            async with asyncio.timeout(SECONDS_MAX):
                with pytest.raises(UnknownError):
                    await producer.send_and_wait(topic, b"v")
                assert (await producer.send_and_wait(topic, key=b"k")).offset == 0

    asyncio.run(main())


@pytest.mark.parametrize("writer", CLIENTS)
def test_tombstones_are_taken(broker: Broker, topic: str, writer: str) -> None:
    """Null values and empty keys, from every client to every client."""
    records: Found = [(b"k", b"v", [], T0), (b"k", None, [], T0 + 1), (b"", b"v", [("h", b"1")], T0 + 2)]
    assert CLIENTS[writer](broker.bootstrap).produce(topic, records) == [0, 1, 2]
    for client in CLIENTS.values():
        assert client(broker.bootstrap).consume(topic, 3) == records
