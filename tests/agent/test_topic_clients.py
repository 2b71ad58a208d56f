"""Real admin clients change topics; real producers and consumers notice.

`make test-kafka` runs the same tests against Apache Kafka.
"""

import time
from contextlib import closing
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.admin import NewPartitions as KafkaPythonPartitions

from tests.agent.clients import (
    SECONDS_MAX,
    Confluent,
    Found,
    consume,
    create_topic,
    eventually,
    partitions_of,
)
from tests.process import Broker

NOW_MS = int(time.time() * 1000)
RECORDS: Found = [(None, b"%d" % number, [], NOW_MS) for number in range(5)]


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


@pytest.fixture
def admin(broker: Broker) -> Any:
    """confluent-kafka's admin client."""
    return Confluent(broker.bootstrap).admin()


def settled(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(SECONDS_MAX) for future in futures.values()]


def refused(future: Any) -> KafkaError:
    with pytest.raises(KafkaException) as refusal:
        future.result(SECONDS_MAX)
    error = refusal.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def test_confluent_deletes_and_makes_again(broker: Broker, admin: Any, topic: str) -> None:
    """The new topic begins at 0 with a new id; the group that read the old one reads it from its start."""
    client = Confluent(broker.bootstrap)
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    create_topic(admin, topic)
    assert client.produce(topic, RECORDS) == [0, 1, 2, 3, 4]
    with closing(client.consumer(group)) as consumer:
        consumer.subscribe([topic])
        consume(consumer, 5)
        consumer.commit(asynchronous=False)
    (old,) = settled(admin.describe_topics(confluent_kafka.TopicCollection([topic])))
    settled(admin.delete_topics([topic]))
    eventually(lambda: topic in admin.list_topics(timeout=SECONDS_MAX).topics, False)
    assert refused(admin.delete_topics([topic])[topic]).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    create_topic(admin, topic)
    (new,) = settled(admin.describe_topics(confluent_kafka.TopicCollection([topic])))
    assert str(new.topic_id) != str(old.topic_id)
    assert client.produce(topic, RECORDS[:2]) == [0, 1]
    with closing(client.consumer(group)) as consumer:
        consumer.subscribe([topic])
        assert [message.offset() for message in consume(consumer, 2)] == [0, 1]


def test_confluent_adds_partitions(broker: Broker, admin: Any, topic: str) -> None:
    """They can be written to; a topic cannot shrink."""
    client = Confluent(broker.bootstrap)
    create_topic(admin, topic)
    client.produce(topic, RECORDS)
    settled(admin.create_partitions([NewPartitions(topic, 3)], validate_only=True))
    assert partitions_of(admin, topic) == 1
    settled(admin.create_partitions([NewPartitions(topic, 3)]))
    eventually(lambda: partitions_of(admin, topic), 3)
    assert client.produce(topic, RECORDS, partition=2) == [0, 1, 2, 3, 4]
    assert client.consume(topic, 5, partition=2) == RECORDS
    less = admin.create_partitions([NewPartitions(topic, 2)])[topic]
    assert refused(less).code() == KafkaError.INVALID_PARTITIONS


def test_confluent_deletes_records(broker: Broker, admin: Any, topic: str) -> None:
    """The log begins later; a consumer that stood below moves on by its auto.offset.reset."""
    client = Confluent(broker.bootstrap)
    create_topic(admin, topic)
    client.produce(topic, RECORDS)
    place = confluent_kafka.TopicPartition(topic, 0, 3)
    (deleted,) = settled(admin.delete_records([place]))
    assert deleted.low_watermark == 3
    earliest = admin.list_offsets({confluent_kafka.TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert [found.offset for found in settled(earliest)] == [3]
    with closing(client.consumer({"auto.offset.reset": "earliest"})) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 1)])
        assert [message.offset() for message in consume(consumer, 2)] == [3, 4]
    beyond = admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 9)])
    assert refused(next(iter(beyond.values()))).code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_confluent_changes_configs(broker: Broker, admin: Any, topic: str) -> None:
    """One config is set and counts at once, another unset; the rest stays; what makes no sense is refused."""
    client = Confluent(broker.bootstrap)
    create_topic(admin, topic, retention_ms="77777", segment_ms="5000")

    def change(**changes: str | None) -> Any:
        entries = [
            ConfigEntry(
                name.replace("_", "."),
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        return admin.incremental_alter_configs([resource])

    def values() -> dict[str, str]:
        (found,) = settled(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: found[name].value for name in ("retention.ms", "segment.ms", "max.message.bytes")}

    settled(change(max_message_bytes="500", segment_ms=None))
    expected = {"retention.ms": "77777", "segment.ms": "604800000", "max.message.bytes": "500"}
    eventually(values, expected)
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        client.produce(topic, [(None, bytes(1000), [], NOW_MS)])
    assert refused(next(iter(change(retention_ms="x").values()))).code() == KafkaError.INVALID_CONFIG
    assert refused(next(iter(change(no_such="1").values()))).code() == KafkaError.INVALID_CONFIG
    assert values() == expected


def test_confluent_describes_a_node(admin: Any) -> None:
    """What tools ask of a broker before they create topics."""
    (found,) = settled(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert found["num.partitions"].value == "1"
    assert found["num.partitions"].is_read_only
    assert found["message.max.bytes"].value == "1048588"


def test_kafka_python_changes_topics(broker: Broker, admin: Any, topic: str) -> None:
    """The same by kafka-python's admin client."""
    client = Confluent(broker.bootstrap)
    create_topic(admin, topic)
    client.produce(topic, RECORDS)
    place = kafka.TopicPartition(topic, 0)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as other:
        other.create_partitions({topic: KafkaPythonPartitions(total_count=2)})
        eventually(lambda: partitions_of(admin, topic), 2)
        other.delete_records({place: 2})
        with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
            assert consumer.beginning_offsets([place]) == {place: 2}
        resource = KafkaPythonResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "12345"})
        other.alter_configs([resource])
        eventually(lambda: config_of(admin, topic, "retention.ms"), "12345")
        assert other.describe_configs([KafkaPythonResource(ConfigResourceType.TOPIC, topic)])
        other.delete_topics([topic])
        eventually(lambda: topic in admin.list_topics(timeout=SECONDS_MAX).topics, False)
        with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
            other.delete_topics([topic])


def config_of(admin: Any, topic: str, name: str) -> str:
    (found,) = settled(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return str(found[name].value)
