"""Transactions before and after they are settled and compacted: clients see the same, and producers go on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from kafka.protocol.admin import DescribeProducersRequest

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1
from holdfast.records.build import Record
from tests.agent.clients import SECONDS_MAX, Confluent, KafkaPython, delivered
from tests.agent.end_readers import END_READERS
from tests.agent.keeping import run_keeper, server_without_keeper
from tests.process import HoldfastProcess

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
STREAM, TABLE = "stream", "table"


def records(*rows: tuple[str, str | None]) -> list[Record]:
    return [
        Record(key=key.encode(), value=None if value is None else value.encode(), timestamp_ms=1)
        for key, value in rows
    ]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[HoldfastProcess]:
    """A server."""
    with server_without_keeper(tmp_path) as process:
        yield process


@pytest.fixture
def cluster(process: HoldfastProcess) -> Iterator[Cluster]:
    """Our own client, and the topics: one is only settled, the other compacted too."""
    with Cluster(process.bootstrap) as cluster:
        create_topic(cluster, STREAM, partitions=1)
        create_topic(cluster, TABLE, partitions=1, configs=COMPACTED)
        yield cluster


class Story:
    """Transactions of one producer, and plain records between them, the same in both topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer = TransactionalProducer(cluster, "story")
        self._producer.init()
        self._plain = {topic: Producer(cluster, topic) for topic in (STREAM, TABLE)}

    def begin(self, *rows: tuple[str, str | None]) -> None:
        """A transaction with one batch in each topic."""
        self._producer.begin()
        for topic in (STREAM, TABLE):
            self._producer.send(topic, 0, records(*rows))

    def commit(self, *rows: tuple[str, str | None]) -> None:
        """The transaction that is open, or one with these records, is committed."""
        if rows:
            self.begin(*rows)
        self._producer.commit()

    def abort(self, *rows: tuple[str, str | None]) -> None:
        """One with these records is aborted."""
        self.begin(*rows)
        self._producer.abort()

    def plain(self, *rows: tuple[str, str | None]) -> None:
        """Without a transaction."""
        for producer in self._plain.values():
            producer.send({0: records(*rows)})


def read_everywhere(bootstrap: str, cluster: Cluster, topic: str) -> dict[str, list[int]]:
    """The offsets that readers of each level see, from the start and to their end: all three clients the same."""
    seen = {}
    for level in Isolation:
        name = level.name.lower()
        end = list_offsets(cluster, topic, {0: LATEST}, isolation=level)[0]
        found = [
            [row[0] for row in make(bootstrap, name).read(topic, [0], end)[0]]
            for make in END_READERS.values()
        ]
        assert found[0] == found[1] == found[2], name
        seen[name] = found[0]
    return seen


def describe_producers(cluster: Cluster, topic: str) -> list[tuple[Any, ...]]:
    """What an admin is told of a partition's producers."""
    part = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(topics=[part(name=topic, partition_indexes=[0])])
    answer = cluster.broker(cluster.leader_of(topic, 0)).send(request, versions=(0, 0))
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0
    return sorted(
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset,
        )
        for one in found.active_producers
    )


def test_readers_of_both_levels_before_and_after(process: HoldfastProcess, cluster: Cluster) -> None:
    """Committed readers notice nothing. Others no longer see what was aborted, once it is settled."""
    story = Story(cluster)
    story.commit(("a", "1"), ("b", "1"))
    story.abort(("a", "2"))
    story.plain(("c", "1"))
    story.abort(("b", None), ("c", None))
    story.commit(("c", "2"))
    story.begin(("a", "3"))
    story.plain(("d", "1"))
    committed, everything = [0, 1, 3, 6], [0, 1, 2, 3, 4, 5, 6, 7, 8]
    before = {topic: describe_producers(cluster, topic) for topic in (STREAM, TABLE)}
    assert read_everywhere(process.bootstrap, cluster, STREAM) == {
        "read_committed": committed,
        "read_uncommitted": everything,
    }
    run_keeper(process)
    assert {topic: describe_producers(cluster, topic) for topic in (STREAM, TABLE)} == before
    for topic, left in ((STREAM, [0, 1, 3, 6]), (TABLE, [0, 1, 6])):
        assert read_everywhere(process.bootstrap, cluster, topic) == {
            "read_committed": left,
            "read_uncommitted": [*left, 7, 8],
        }
    story.commit()
    story.abort(("d", None))
    run_keeper(process)
    left = [1, 6, 7, 8]
    assert read_everywhere(process.bootstrap, cluster, TABLE) == {
        "read_committed": left,
        "read_uncommitted": left,
    }


def test_producers_go_on_after_their_batches_are_compacted_away(
    process: HoldfastProcess, cluster: Cluster
) -> None:
    """Idempotent ones of each client and transactional ones of both generations: sequences are no matter of bytes."""
    bootstrap = process.bootstrap
    with ExitStack() as stack:
        senders: dict[str, Callable[[str], int]] = {
            "confluent-kafka": confluent_sender(bootstrap),
            "kafka-python": kafka_python_sender(bootstrap, stack),
            "aiokafka": aiokafka_sender(bootstrap, stack),
            "TV1": transactional_sender(TransactionalProducer(cluster, "first", generation=TV1)),
            "TV2": transactional_sender(TransactionalProducer(cluster, "second")),
        }
        offsets = [send(f"{number}") for number in range(2) for send in senders.values()]
        offsets.append(transactional_sender(TransactionalProducer(cluster, "last"))("shadow"))
        before = describe_producers(cluster, TABLE)
        assert len(before) == len(senders) + 1
        run_keeper(process)
        end = len(offsets)
        assert read_everywhere(bootstrap, cluster, TABLE)["read_uncommitted"] == [end - 1]
        assert describe_producers(cluster, TABLE) == before
        offsets += [send("after") for send in senders.values()]
    assert offsets == list(range(end + len(senders)))
    assert read_everywhere(bootstrap, cluster, TABLE)["read_committed"] == list(range(end - 1, len(offsets)))


def confluent_sender(bootstrap: str) -> Callable[[str], int]:
    producer = Confluent(bootstrap).producer({"enable.idempotence": True})

    def send(value: str) -> int:
        offsets: list[int] = []
        producer.produce(
            TABLE,
            value,
            key="k",
            partition=0,
            on_delivery=lambda error, message: offsets.append(delivered(error, message)),
        )
        assert producer.flush(SECONDS_MAX) == 0
        return offsets[0]

    return send


def kafka_python_sender(bootstrap: str, stack: ExitStack) -> Callable[[str], int]:
    producer = KafkaPython(bootstrap).producer(enable_idempotence=True)
    stack.callback(producer.close)
    return lambda value: int(
        producer.send(TABLE, key=b"k", value=value.encode(), partition=0).get(SECONDS_MAX).offset
    )


def aiokafka_sender(bootstrap: str, stack: ExitStack) -> Callable[[str], int]:
    loop = asyncio.new_event_loop()
    stack.callback(loop.close)

    async def start() -> Any:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        await producer.start()
        return producer

    producer = loop.run_until_complete(start())
    stack.callback(lambda: loop.run_until_complete(producer.stop()))

    async def send(value: str) -> int:
        stored = await producer.send_and_wait(TABLE, key=b"k", value=value.encode(), partition=0)
        return int(stored.offset)

    return lambda value: loop.run_until_complete(send(value))


def transactional_sender(producer: TransactionalProducer) -> Callable[[str], int]:
    producer.init()

    def send(value: str) -> int:
        producer.begin()
        offset = producer.send(TABLE, 0, records(("k", value)))
        producer.commit()
        return offset

    return send
