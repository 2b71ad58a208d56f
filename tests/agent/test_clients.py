"""Three real clients against a real broker: what they send comes back, what they expect is answered.

`make test-kafka` runs the same tests against Apache Kafka.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.errors import MessageSizeTooLargeError
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka.admin import NewTopic
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic

from tests.agent.clients import (
    CLIENTS,
    CODECS,
    SECONDS_MAX,
    Confluent,
    Found,
    KafkaPython,
    consume,
    create_topic,
    delivered,
)
from tests.process import Broker

T0 = 1_700_000_000_000
RECORDS: Found = [
    (b"key", b"value", [], T0),
    (None, b"no key", [("one", b"1"), ("one", b"again"), ("null", None)], T0 + 5),
    (b"tombstone", None, [], T0 + 3),
    (None, None, [], T0 + 9),
    (b"", b"", [("", b"")], T0 + 7),
    ("k\N{SNOWMAN}".encode(), bytes(range(256)) * 20, [("h", bytes(100))], T0 + 11),
]
"""What clients send and must find again."""


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def sendable(client: str) -> Found:
    """What the client itself lets an application send: the Python ones know fewer nulls."""
    if client == "confluent-kafka":
        return RECORDS
    return [
        (key, value, [(name, data) for name, data in headers if data is not None], timestamp)
        for key, value, headers, timestamp in RECORDS
        if key is not None or value is not None
    ]


def error_code(call: Callable[[], object]) -> int:
    """The Kafka error code that a confluent call fails with."""
    with pytest.raises(KafkaException) as failure:
        call()
    code: int = failure.value.args[0].code()
    return code


def create(broker: Broker, name: str, partitions: int = 1, **configs: str) -> None:
    """A topic with configs, underscores for dots."""
    create_topic(Confluent(broker.bootstrap).admin(), name, partitions, **configs)


@pytest.mark.parametrize(
    ("writer", "codec"),
    [(name, codec) for name, codecs in CODECS.items() for codec in codecs],
)
def test_what_one_client_writes_all_clients_read(broker: Broker, topic: str, writer: str, codec: str) -> None:
    """Keys, values, nulls, headers and timestamps, in every codec that the clients offer here."""
    records = sendable(writer)
    offsets = CLIENTS[writer](broker.bootstrap).produce(topic, records, codec=codec)
    assert offsets == list(range(len(records)))
    for name, client in CLIENTS.items():
        if codec in CODECS[name]:
            assert client(broker.bootstrap).consume(topic, len(records)) == records


@pytest.mark.parametrize("reader", CLIENTS)
def test_reading_starts_anywhere(broker: Broker, topic: str, reader: str) -> None:
    """Every offset is found, also in the middle of a batch."""
    Confluent(broker.bootstrap).produce(topic, RECORDS, codec="zstd" if reader != "kafka-python" else "gzip")
    for offset in range(len(RECORDS)):
        found = CLIENTS[reader](broker.bootstrap).consume(topic, len(RECORDS) - offset, offset=offset)
        assert found == RECORDS[offset:]


@pytest.mark.parametrize("name", CLIENTS)
def test_partitions_are_logs_of_their_own(broker: Broker, topic: str, name: str) -> None:
    """Each has its own offsets from 0 on, and its own records."""
    create(broker, topic, partitions=3)
    client = CLIENTS[name](broker.bootstrap)
    for partition in (2, 0, 1):
        records: Found = [(None, f"{partition}-{n}".encode(), [], T0) for n in range(partition + 2)]
        assert client.produce(topic, records, partition=partition) == list(range(partition + 2))
    for partition in range(3):
        values = [value for _, value, _, _ in client.consume(topic, partition + 2, partition=partition)]
        assert values == [f"{partition}-{n}".encode() for n in range(partition + 2)]


@pytest.mark.parametrize("name", CLIENTS)
def test_log_append_time_replaces_the_producers(broker: Broker, topic: str, name: str) -> None:
    """With message.timestamp.type=LogAppendTime records carry the time at which they were stored."""
    create(broker, topic, message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    client = CLIENTS[name](broker.bootstrap)
    records = sendable(name)
    client.produce(topic, records)
    after = time.time_ns() // 1_000_000
    times = [timestamp for *_, timestamp in client.consume(topic, len(records))]
    assert all(before <= timestamp <= after for timestamp in times)
    with closing(Confluent(broker.bootstrap).consumer()) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert consume(consumer, 1)[0].timestamp()[0] == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME


def test_delivery_report_carries_the_append_time(broker: Broker, topic: str) -> None:
    """The producer is told the time that readers will see."""
    create(broker, topic, message_timestamp_type="LogAppendTime")
    reports: list[Any] = []
    producer = Confluent(broker.bootstrap).producer()
    producer.produce(topic, b"v", timestamp=T0, on_delivery=lambda error, message: reports.append(message))
    assert producer.flush(SECONDS_MAX) == 0
    assert reports[0].timestamp()[1] > T0


@pytest.mark.parametrize("name", CLIENTS)
def test_value_close_to_the_limit(broker: Broker, topic: str, name: str) -> None:
    """The largest records of all clients' defaults fit, and are read although they exceed fetch limits."""
    value = bytes(range(250)) * 3998
    client = CLIENTS[name](broker.bootstrap)
    assert client.produce(topic, [(None, value, [], T0)] * 2) == [0, 1]
    assert [found for _, found, _, _ in client.consume(topic, 2)] == [value] * 2


def test_value_over_the_limit_is_message_too_large(broker: Broker, topic: str) -> None:
    """MESSAGE_SIZE_TOO_LARGE reaches the application of every client; the topic goes on."""
    create(broker, topic, max_message_bytes="5000")
    large = bytes(6000)

    failures: list[Any] = []
    producer = Confluent(broker.bootstrap).producer()
    producer.produce(topic, large, on_delivery=lambda error, message: failures.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert failures[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    with (
        closing(KafkaPython(broker.bootstrap).producer()) as other,
        pytest.raises(kafka_errors.MessageSizeTooLargeError),
    ):
        other.send(topic, large).get(SECONDS_MAX)

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as third:
            await third.send_and_wait(topic, large)

    with pytest.raises(MessageSizeTooLargeError):
        asyncio.run(send())
    assert Confluent(broker.bootstrap).produce(topic, [(None, bytes(4000), [], T0)]) == [0]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(broker: Broker, topic: str, acks: str) -> None:
    """All three levels store; without acks the client knows no offset."""
    reports: list[Any] = []
    producer = Confluent(broker.bootstrap).producer({"acks": acks})
    for number in range(100):
        producer.produce(topic, str(number), on_delivery=lambda error, message: reports.append(message))
    assert producer.flush(SECONDS_MAX) == 0
    if acks != "0":
        assert [message.offset() for message in reports] == list(range(100))
    values = [value for _, value, _, _ in Confluent(broker.bootstrap).consume(topic, 100)]
    assert values == [str(number).encode() for number in range(100)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks_of_the_python_clients(broker: Broker, topic: str, acks: Any) -> None:
    """kafka-python and aiokafka mean the same by them."""
    with closing(KafkaPython(broker.bootstrap).producer(acks=acks)) as producer:
        producer.send(topic, b"first").get(SECONDS_MAX)

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks=acks) as other:
            await other.send_and_wait(topic, b"second")

    asyncio.run(send())
    values = {value for _, value, _, _ in Confluent(broker.bootstrap).consume(topic, 2)}
    assert values == {b"first", b"second"}


def test_idempotent_producers(broker: Broker, topic: str) -> None:
    """All three clients' idempotent producers work side by side on one partition."""
    create(broker, topic)
    count = 300
    producer = Confluent(broker.bootstrap).producer({"enable.idempotence": True, "linger.ms": 1})
    offsets: list[int] = []
    for number in range(count):
        producer.produce(
            topic, f"c{number}", on_delivery=lambda error, message: offsets.append(delivered(error, message))
        )
        producer.poll(0)
    with closing(KafkaPython(broker.bootstrap).producer(enable_idempotence=True)) as other:
        sent = [other.send(topic, f"k{number}".encode()) for number in range(count)]
        offsets += [future.get(SECONDS_MAX).offset for future in sent]

    async def send() -> list[int]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True
        ) as third:
            sent = [await third.send(topic, f"a{number}".encode()) for number in range(count)]
            return [(await future).offset for future in sent]

    offsets += asyncio.run(send())
    assert producer.flush(SECONDS_MAX) == 0
    assert sorted(offsets) == list(range(3 * count))
    values = [value for _, value, _, _ in Confluent(broker.bootstrap).consume(topic, 3 * count)]
    for prefix in (b"c", b"k", b"a"):
        mine = [value for value in values if value is not None and value.startswith(prefix)]
        assert mine == [prefix + str(number).encode() for number in range(count)]


def test_transactional_producers(broker: Broker, topic: str) -> None:
    """Of each client's producer, readers of committed records see what was committed and nothing else."""
    create(broker, topic, partitions=1)
    librdkafka = Confluent(broker.bootstrap).producer({"transactional.id": f"{topic}-librdkafka"})
    librdkafka.init_transactions(SECONDS_MAX)
    for value, end in ((b"aborted", librdkafka.abort_transaction), (b"1", librdkafka.commit_transaction)):
        librdkafka.begin_transaction()
        librdkafka.produce(topic, value)
        librdkafka.flush(SECONDS_MAX)
        end(SECONDS_MAX)
    with closing(
        kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"{topic}-kafka-python")
    ) as producer:
        producer.init_transactions()
        for value, end in ((b"aborted", producer.abort_transaction), (b"2", producer.commit_transaction)):
            producer.begin_transaction()
            producer.send(topic, value).get(SECONDS_MAX)
            end()
    asyncio.run(_aiokafka_transactions(broker, topic))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    )
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = [consumer.poll(SECONDS_MAX) for _ in range(3)]
    assert [message.value() for message in messages] == [b"1", b"2", b"3"]


async def _aiokafka_transactions(broker: Broker, topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=f"{topic}-aiokafka"
    )
    async with producer:
        for value, end in ((b"aborted", producer.abort_transaction), (b"3", producer.commit_transaction)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, value)
            await end()


def test_watermarks_and_offsets_by_time(broker: Broker, topic: str) -> None:
    """The first record at or after a time, exactly, though times go back and forth; -1 past the last."""
    client = Confluent(broker.bootstrap)
    create(broker, topic, partitions=2)
    client.produce(topic, RECORDS[:3], codec="zstd")
    client.produce(topic, RECORDS[3:])

    def first_at(timestamp: int) -> int:
        wanted = confluent_kafka.TopicPartition(topic, 0, timestamp)
        return int(consumer.offsets_for_times([wanted], timeout=SECONDS_MAX)[0].offset)

    with closing(client.consumer()) as consumer:
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), SECONDS_MAX) == (0, 6)
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 1), SECONDS_MAX) == (0, 0)
        times = [timestamp for *_, timestamp in RECORDS]
        for timestamp in range(T0 - 1, T0 + 12):
            assert first_at(timestamp) == next(n for n, at in enumerate(times) if at >= timestamp)
        assert first_at(T0 + 12) == confluent_kafka.OFFSET_END

    with closing(KafkaPython(broker.bootstrap).consumer()) as other:
        place = kafka.TopicPartition(topic, 0)
        found = other.offsets_for_times({place: T0 + 4})[place]
        assert (found.offset, found.timestamp) == (1, T0 + 5)
        assert other.offsets_for_times({place: T0 + 12})[place] is None
        assert other.beginning_offsets([place]) == {place: 0}
        assert other.end_offsets([place]) == {place: 6}


def test_offset_of_the_greatest_timestamp(broker: Broker, topic: str) -> None:
    """MAX_TIMESTAMP names the record itself (KIP-734)."""
    client = Confluent(broker.bootstrap)
    client.produce(topic, [(None, b"", [], T0 + n) for n in (3, 9, 1, 9, 2)], codec="gzip")
    place = confluent_kafka.TopicPartition(topic, 0)
    wanted = {place: confluent_kafka.admin.OffsetSpec.max_timestamp()}
    admin = client.admin()
    found = admin.list_offsets(wanted)[place].result(SECONDS_MAX)
    assert (found.offset, found.timestamp) == (1, T0 + 9)


def test_empty_topic_waits_and_reports_its_end(broker: Broker, topic: str) -> None:
    """No record and no error; a client that asks for the end is told of it."""
    create(broker, topic)
    with closing(Confluent(broker.bootstrap).consumer({"enable.partition.eof": True})) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, OFFSET_BEGINNING)])
        message = consumer.poll(SECONDS_MAX)
        assert message.error().code() == KafkaError._PARTITION_EOF
        assert message.offset() == 0


@pytest.mark.parametrize("reader", CLIENTS)
def test_waiting_consumer_gets_what_is_produced_later(broker: Broker, topic: str, reader: str) -> None:
    """A long poll is answered by the record that ends it."""
    create(broker, topic)
    found: list[Found] = []
    client = CLIENTS[reader](broker.bootstrap)
    waiting = threading.Thread(target=lambda: found.append(client.consume(topic, 1)))
    waiting.start()
    Confluent(broker.bootstrap).produce(topic, RECORDS[:1])
    waiting.join(SECONDS_MAX)
    assert found == [RECORDS[:1]]


def test_seek_back_and_forth(broker: Broker, topic: str) -> None:
    """A consumer goes where it is sent while it reads."""
    client = Confluent(broker.bootstrap)
    client.produce(topic, [(None, str(n).encode(), [], T0) for n in range(1000)])
    with closing(client.consumer()) as consumer:
        place = confluent_kafka.TopicPartition(topic, 0, 0)
        consumer.assign([place])
        assert consume(consumer, 1)[0].value() == b"0"
        for offset in (999, 0, 500, 501, 10):
            consumer.seek(confluent_kafka.TopicPartition(topic, 0, offset))
            assert consume(consumer, 1)[0].value() == str(offset).encode()


def test_offset_out_of_range_is_reported(broker: Broker, topic: str) -> None:
    """A position past the end is an error for a client without a reset policy."""
    client = Confluent(broker.bootstrap)
    client.produce(topic, RECORDS)
    with closing(client.consumer()) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 1000)])
        error = consumer.poll(SECONDS_MAX).error()
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_committed_offsets_come_back_with_their_metadata(broker: Broker, topic: str) -> None:
    """Positions of self-assigned consumers are kept per group, for all clients alike."""
    create(broker, topic, partitions=2)
    Confluent(broker.bootstrap).produce(topic, RECORDS)
    group = f"group-of-{topic}"
    with closing(Confluent(broker.bootstrap).consumer({"group.id": group})) as consumer:
        unknown = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], SECONDS_MAX)[0]
        assert (unknown.offset, unknown.error) == (confluent_kafka.OFFSET_INVALID, None)
        position = confluent_kafka.TopicPartition(topic, 0, 4, metadata="a \N{SNOWMAN} note")
        consumer.commit(offsets=[position], asynchronous=False)
        found = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], SECONDS_MAX)[0]
        assert (found.offset, found.metadata) == (4, "a \N{SNOWMAN} note")
        consumer.assign([confluent_kafka.TopicPartition(topic, 0)])
        assert consume(consumer, 1)[0].offset() == 4, "a consumer resumes where its group stands"

    with closing(KafkaPython(broker.bootstrap).consumer(group_id=group)) as other:
        place = kafka.TopicPartition(topic, 0)
        other.assign([place])
        assert other.committed(place) == 4
        other.commit({place: kafka.OffsetAndMetadata(5, "by kafka-python", -1)})

    async def third() -> int:
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
        ) as reader:
            place = aiokafka.TopicPartition(topic, 0)
            reader.assign([place])
            before = await reader.committed(place)
            await reader.commit({place: (before + 1, "by aiokafka")})
            return int(await reader.committed(place))

    assert asyncio.run(third()) == 6


def test_topic_is_made_by_asking_for_it(broker: Broker, topic: str) -> None:
    """Auto-creation with the default number of partitions, once, however many ask at the same time."""
    clients = [Confluent(broker.bootstrap).producer() for _ in range(5)]
    for number, producer in enumerate(clients):
        producer.produce(topic, str(number))
    assert [producer.flush(SECONDS_MAX) for producer in clients] == [0] * 5
    described = Confluent(broker.bootstrap).admin().list_topics(topic, SECONDS_MAX).topics[topic]
    assert list(described.partitions) == [0]
    assert {value for _, value, _, _ in Confluent(broker.bootstrap).consume(topic, 5)} == {
        str(number).encode() for number in range(5)
    }


def test_topic_is_not_made_for_a_client_that_forbids_it(broker: Broker, topic: str) -> None:
    """A consumer without allow.auto.create.topics is told that the topic is unknown, and it stays so."""
    config = {"allow.auto.create.topics": False}
    with closing(Confluent(broker.bootstrap).consumer(config)) as consumer:
        described = consumer.list_topics(topic, SECONDS_MAX).topics[topic]
        assert described.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert topic not in consumer.list_topics(timeout=SECONDS_MAX).topics


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "configs", "code"),
    [
        ("bad name", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("three-replicas", 1, 3, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("no-partitions", 0, 1, {}, KafkaError.INVALID_PARTITIONS),
        ("too-many", 10_001, 1, {}, KafkaError.POLICY_VIOLATION),
        ("bad-value", 1, 1, {"max.message.bytes": "many"}, KafkaError.INVALID_CONFIG),
        ("bad-config", 1, 1, {"no.such.config": "1"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_refusals_of_create_topics(
    broker: Broker, name: str, partitions: int, replicas: int, configs: dict[str, str], code: int
) -> None:
    """Each has the error code that clients expect, and creates nothing."""
    admin = Confluent(broker.bootstrap).admin()
    new = NewTopic(name, partitions or 1, replicas, config=configs)
    new.num_partitions = partitions
    assert error_code(lambda: admin.create_topics([new])[name].result(SECONDS_MAX)) == code
    assert name not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_creating_a_topic_twice(broker: Broker, topic: str) -> None:
    """TOPIC_ALREADY_EXISTS, from every admin client; a mixed request creates what it can."""
    create(broker, topic)
    admin = Confluent(broker.bootstrap).admin()
    made = admin.create_topics([NewTopic(topic, 1, 1), NewTopic(topic + "-2", 2, 1)])
    assert error_code(lambda: made[topic].result(SECONDS_MAX)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert made[topic + "-2"].result(SECONDS_MAX) is None
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as other:
        with pytest.raises(kafka_errors.TopicAlreadyExistsError):
            other.create_topics([KafkaPythonTopic(topic, num_partitions=1, replication_factor=1)])
        assert topic in other.list_topics()


def test_validation_alone_changes_nothing(broker: Broker, topic: str) -> None:
    """validate_only says what would happen."""
    admin = Confluent(broker.bootstrap).admin()
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(SECONDS_MAX)
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics
    create(broker, topic)
    repeated = admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic]
    assert error_code(lambda: repeated.result(SECONDS_MAX)) == KafkaError.TOPIC_ALREADY_EXISTS
