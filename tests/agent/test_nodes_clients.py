"""Three nodes seen through real clients: leaders, replicas, every node's own copy, and a store that is lost."""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from holdfast.records.walk import walk_valid
from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import RawClient
from tests.process import HoldfastProcess

SECONDS_MAX = 20.0
RECORDS = 200


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[HoldfastProcess]:
    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process:
        yield process


def ports(process: HoldfastProcess) -> dict[int, int]:
    """Ports by node, as Metadata tells them."""
    brokers = AdminClient({"bootstrap.servers": process.bootstrap}).list_topics(timeout=SECONDS_MAX).brokers
    return {node: broker.port for node, broker in brokers.items()}


def create(process: HoldfastProcess, name: str, **options: Any) -> None:
    topic = NewTopic(name, **{"num_partitions": 3, "replication_factor": 3, **options})
    admin = AdminClient({"bootstrap.servers": process.bootstrap})
    admin.create_topics([topic])[name].result(SECONDS_MAX)


def produce(process: HoldfastProcess, topic: str, count: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": process.bootstrap, "enable.idempotence": True})
    failures: list[object] = []
    for number in range(count):
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % 3,
            on_delivery=lambda failure, _: failures.append(failure),
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == [None] * count


def consume(process: HoldfastProcess, topic: str, count: int = RECORDS) -> list[int]:
    consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    values: list[int] = []
    while len(values) < count:
        messages = consumer.consume(count, SECONDS_MAX)
        assert messages, f"{len(values)} of {count} records came"
        values += [int(message.value()) for message in messages]
    consumer.close()
    return sorted(values)


def offsets_through(port: int, topic: str, partition: int) -> list[int]:
    """Offsets of what a node answers from its own store to a fetch of version 11."""
    with RawClient(port) as client:
        answer = client.call(requests.fetch(topic, {partition: 0}, version=11))
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    return [
        offset
        for one in walk_valid(bytes(found.records))
        for offset in range(one.base_offset, one.next_offset)
    ]


def test_leaders_are_spread_and_every_node_has_its_own_copy(trio: HoldfastProcess) -> None:
    """Metadata names one leader per partition; a fetch of v11 is answered by any replica, v10 by the leader."""
    create(trio, "t")
    produce(trio, "t")
    assert consume(trio, "t") == list(range(RECORDS))
    topic = AdminClient({"bootstrap.servers": trio.bootstrap}).list_topics("t", SECONDS_MAX).topics["t"]
    assert sorted(part.leader for part in topic.partitions.values()) == [1, 2, 3]
    assert all(sorted(part.isrs) == [1, 2, 3] for part in topic.partitions.values())
    by_node = ports(trio)
    for partition, part in topic.partitions.items():
        copies = [offsets_through(by_node[node], "t", partition) for node in (1, 2, 3)]
        assert copies == [copies[0]] * 3
        assert len(copies[0]) >= RECORDS // 3
        follower = next(node for node in (1, 2, 3) if node != part.leader)
        with RawClient(by_node[follower]) as client:
            old = client.call(requests.fetch("t", {partition: 0}, version=10))
            plain = client.call(requests.list_offsets("t", {partition: -1}))
            stray = client.call(requests.produce("t", {partition: batch(b"x")}))
        assert old.responses[0].partitions[0].error_code == 6
        assert plain.topics[0].partitions[0].error_code == 6
        assert stray.responses[0].partition_responses[0].error_code == 6


def test_a_lost_store_costs_nothing_that_was_acknowledged(trio: HoldfastProcess) -> None:
    """A store that fails leaves; leaders move; what was acknowledged is served by the others, restart included."""
    create(trio, "t")
    produce(trio, "t")
    journal = trio.data / "stores" / "2" / "journal"
    trio.kill()
    shutil.rmtree(journal)
    trio.start()
    produce(trio, "t")
    assert consume(trio, "t", 2 * RECORDS) == sorted([*range(RECORDS)] * 2)
    topic = AdminClient({"bootstrap.servers": trio.bootstrap}).list_topics("t", SECONDS_MAX).topics["t"]
    assert {part.leader for part in topic.partitions.values()} == {1, 3}
    assert all(sorted(part.isrs) == [1, 3] for part in topic.partitions.values())
    trio.kill()
    trio.start()
    assert consume(trio, "t", 2 * RECORDS) == sorted([*range(RECORDS)] * 2)
    with RawClient(ports(trio)[2]) as client:
        refused = client.call(requests.fetch("t", {0: 0}, version=11))
    assert refused.responses[0].partitions[0].error_code == 6


def test_replicas_move_as_kafkas_tools_ask_for_it(tmp_path: Path) -> None:
    """A replica is dropped and put back by kafka-python's admin: listed while it copies, and in sync in the end."""
    config = tmp_path / "holdfast.toml"
    config.write_text("[keeper]\nround_seconds = 0.2\n")
    place = kafka.TopicPartition("t", 0)
    with HoldfastProcess(tmp_path / "data", "--nodes", "3", "--config", str(config)) as process:
        create(process, "t")
        produce(process, "t")
        with closing(kafka.KafkaAdminClient(bootstrap_servers=process.bootstrap)) as admin:
            assert admin.alter_partition_reassignments({place: [2, 3]}) == {place: None}
            assert admin.list_partition_reassignments() == {}
            assert in_sync(process, "t", 0) == [2, 3]
            assert admin.alter_partition_reassignments({place: [1, 3]}) == {place: None}
            deadline = time.monotonic() + SECONDS_MAX
            while found := admin.list_partition_reassignments([place]):
                wanted = {"replicas": [1, 3, 2], "adding_replicas": [1], "removing_replicas": [2]}
                assert found == {place: wanted}
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert in_sync(process, "t", 0) == [1, 3]
            refused = admin.alter_partition_reassignments({place: None})
            assert refused == {place: kafka.errors.NoReassignmentInProgressError}
        assert consume(process, "t") == list(range(RECORDS))
        assert offsets_through(ports(process)[1], "t", 0) == offsets_through(ports(process)[3], "t", 0)


def in_sync(process: HoldfastProcess, topic: str, partition: int) -> list[int]:
    """The replicas in sync, in order, as Metadata tells them; all that there are."""
    listed = AdminClient({"bootstrap.servers": process.bootstrap}).list_topics(topic, timeout=SECONDS_MAX)
    found = listed.topics[topic].partitions[partition]
    assert sorted(found.replicas) == sorted(found.isrs)
    return sorted(found.isrs)


def test_too_few_replicas_refuse_the_write(trio: HoldfastProcess) -> None:
    """min.insync.replicas=3 with a store lost: NOT_ENOUGH_REPLICAS for acks=all, and acks=1 still works."""
    create(trio, "t", config={"min.insync.replicas": "3"})
    produce(trio, "t", 3)
    trio.kill()
    shutil.rmtree(trio.data / "stores" / "3" / "journal")
    trio.start()
    producer = Producer({"bootstrap.servers": trio.bootstrap, "acks": "all", "message.timeout.ms": 1500})
    failures: list[Any] = []
    producer.produce("t", b"x", partition=0, on_delivery=lambda failure, _: failures.append(failure))
    producer.flush(SECONDS_MAX)
    assert failures[0] is not None
    port = ports(trio)[_leader(trio, "t", 0)]
    with RawClient(port) as client:
        answer = client.call(requests.produce("t", {0: batch(b"x")}))
    assert answer.responses[0].partition_responses[0].error_code == 19


def test_the_number_of_nodes_is_kept(trio: HoldfastProcess, tmp_path: Path) -> None:
    """Without --nodes the directory knows; another number is refused in a line."""
    trio.stop()
    plain = HoldfastProcess(trio.data)
    with plain:
        assert sorted(ports(plain)) == [1, 2, 3]
    with pytest.raises(AssertionError, match="has 3 nodes: start it with --nodes 3"):
        HoldfastProcess(trio.data, "--nodes", "2").start()


def _leader(process: HoldfastProcess, topic: str, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": process.bootstrap})
    leader: int = admin.list_topics(topic, SECONDS_MAX).topics[topic].partitions[partition].leader
    return leader
