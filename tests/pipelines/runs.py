"""Pipelines of the example on a real cluster: prepared, run to the end of what is there, read by confluent-kafka."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from examples.compliance.generator import SEED, Message, messages
from examples.compliance.oracle import judge
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.producer import Producer, partition_of_key
from holdfast.client.topics import create_topic
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.frames import OWN_HEADERS, Transform
from holdfast.pipelines.queries import RunningQuery, adapter_query, service_query
from holdfast.pipelines.transform import find_transform
from holdfast.records.record import Record

SILENCE_S_MAX = 30.0
ONCE = {"availableNow": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A record of an output topic, for comparison."""

    key: bytes
    value: bytes
    partition: int
    timestamp_ms: int
    headers: tuple[tuple[str, bytes], ...]
    """The message's own, in their order, without those that the pipeline adds."""
    end_state: str
    reason: str | None
    origin: str


def fill(
    cluster: Cluster, prefix: str, number: int, *, partitions: int = 2
) -> dict[str, tuple[Message, str]]:
    """The example's topics, and messages in the ingest topic: each with its place, by id."""
    for name in ("in", "qualified", "audit", "tally"):
        # The day of the messages is long past: a broker would be right to let go of them.
        create_topic(cluster, f"{prefix}.{name}", partitions=partitions, configs={"retention.ms": "-1"})
    return send(cluster, f"{prefix}.in", number, partitions=partitions)


def send(
    cluster: Cluster, topic: str, number: int, *, partitions: int = 2, seed: int = SEED
) -> dict[str, tuple[Message, str]]:
    """Messages for a topic that nobody else writes to: each with its place, by id."""
    return send_these(cluster, topic, messages(number, seed=seed), partitions=partitions)


def send_these(
    cluster: Cluster, topic: str, made: Iterable[Message], *, partitions: int = 2
) -> dict[str, tuple[Message, str]]:
    """The same with messages that are there already."""
    queues: dict[int, list[Message]] = defaultdict(list)
    for message in made:
        queues[partition_of_key(message.key, partitions)].append(message)
    ends = list_offsets(cluster, topic, dict.fromkeys(range(partitions), LATEST))
    Producer(cluster, topic).send(
        {
            partition: [
                Record(
                    key=each.key,
                    value=each.value,
                    headers=each.headers,
                    timestamp_ms=int(each.happened.timestamp() * 1000),
                )
                for each in queue
            ]
            for partition, queue in queues.items()
        }
    )
    return {
        dict(each.headers)["ce_id"].decode(): (each, f"{topic}/{partition}@{offset}")
        for partition, queue in queues.items()
        for offset, each in enumerate(queue, ends[partition])
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What queries have told of themselves, over all starts."""

    messages: Counter[str]
    given_up: Counter[str]
    rows: int


def run_service(spark: SparkSession, pipeline: Pipeline, transform: Transform | None = None) -> Ran:
    """What is there, to its end; raises what the query failed with. The transform is the file's unless one is given."""
    return _run(service_query(spark, pipeline, transform or find_transform(pipeline), ONCE))


def run_adapters(spark: SparkSession, pipeline: Pipeline) -> None:
    """The same."""
    for adapter in pipeline.adapters:
        _run(adapter_query(spark, pipeline, adapter, ONCE))


def _run(query: RunningQuery) -> Ran:
    query.await_end()
    while query.start_again_if_python_was_slow():
        query.await_end()
    failure = query.failure()
    if failure is not None:
        raise failure
    return Ran(messages=query.messages, given_up=query.given_up, rows=query.look().rows)


def expected(
    filled: Mapping[str, tuple[Message, str]], *, partitions: int = 2
) -> tuple[dict[str, Told], dict[str, Told]]:
    """What the oracle has for the qualified topic and for the audit topic, by id."""
    audit = {}
    for name, (message, origin) in filled.items():
        verdict = judge(message)
        audit[name] = Told(
            key=message.key,
            value=verdict.value,
            partition=partition_of_key(message.key, partitions),
            timestamp_ms=int(message.happened.timestamp() * 1000),
            headers=message.headers,
            end_state=verdict.end_state,
            reason=verdict.reason,
            origin=origin,
        )
    return {name: told for name, told in audit.items() if told.end_state == "qualified"}, audit


def consume(bootstrap: str, topic: str) -> list[Any]:
    """Every committed record up to the end, by confluent-kafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=SILENCE_S_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found, open_partitions = [], set(partitions)
        while open_partitions:
            (message,) = consumer.consume(1, SILENCE_S_MAX) or [None]
            assert message is not None, f"silence in {topic}"
            if message.error() is None:
                found.append(message)
            elif message.error().name() == "_PARTITION_EOF":
                open_partitions.discard(message.partition())
            else:
                raise KafkaException(message.error())
        return found
    finally:
        consumer.close()


def read_once(bootstrap: str, topic: str) -> dict[str, Told]:
    """By id; a record that is there twice fails the test."""
    found: dict[str, Told] = {}
    for message in consume(bootstrap, topic):
        headers = {name: value.decode() for name, value in message.headers()}
        assert headers["ce_id"] not in found, f"{headers['ce_id']} is in {topic} twice"
        found[headers["ce_id"]] = Told(
            key=message.key(),
            value=message.value(),
            partition=message.partition(),
            timestamp_ms=message.timestamp()[1],
            headers=tuple(each for each in message.headers() if each[0] not in OWN_HEADERS),
            end_state=headers["holdfast_end_state"],
            reason=headers.get("holdfast_reason"),
            origin=headers["holdfast_origin"],
        )
    return found


def end_states(told: Iterable[Told]) -> Counter[str]:
    """How many there are of each."""
    return Counter(each.end_state for each in told)
