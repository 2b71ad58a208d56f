"""Every request in every advertised version, answered so that kafka-python's own classes decode it back."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from holdfast.agent import handlers
from holdfast.agent.registry import APIS
from holdfast.client import transactions
from holdfast.client.groups import TopicPartition
from tests.agent import requests
from tests.agent.batches import NOW_MS, batch
from tests.agent.handlers.group_checks import GROUP_CHECKS
from tests.agent.handlers.topic_checks import TOPIC_CHECKS
from tests.agent.handlers.transaction_checks import TRANSACTION_CHECKS, ask, start, stored
from tests.agent.raw import (
    AlterPartitionReassignmentsRequest,
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    FindCoordinatorRequest,
    ListPartitionReassignmentsRequest,
    OffsetForLeaderEpochRequest,
    RawClient,
)
from tests.process import HoldfastProcess

assert handlers.__all__

EVERY_VERSION = [
    pytest.param(api.key, version, id=f"{handlers.__all__[index]}-v{version}")
    for index, api in enumerate(sorted(APIS.values(), key=lambda api: api.key))
    for version in range(api.first, api.last + 1)
]


class Exchange:
    """A client and a topic of three records, the third of them committed by group `g`."""

    def __init__(self, client: RawClient, port: int) -> None:
        self.call = client.call
        self.port = port
        client.call(requests.create_topic("t", partitions=2))
        client.call(requests.produce("t", {0: batch(b"a", b"b", b"c")}))
        client.call(requests.commit_offset("g", "t", 2, metadata="note"))
        self.topic_id: UUID = client.call(requests.metadata("t", version=10)).topics[0].topic_id

    def topic(self, version: int) -> str | UUID:
        """The name, or the id in versions of Produce and Fetch that want it."""
        return self.topic_id if version >= 13 else "t"


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with (
        HoldfastProcess(tmp_path_factory.mktemp("versions") / "data") as process,
        RawClient(process.port) as client,
    ):
        yield Exchange(client, process.port)


def check_produce(exchange: Exchange, version: int) -> None:
    topic = exchange.topic(version)
    answer = exchange.call(requests.produce(topic, {1: batch(b"x"), 9: batch(b"y")}, version=version))
    stored, unknown = answer.responses[0].partition_responses
    assert (stored.index, stored.error_code, stored.log_append_time_ms) == (1, 0, -1)
    assert (unknown.index, unknown.error_code, unknown.base_offset) == (9, 3, -1)
    if version >= 8:
        assert stored.error_message is None
        assert "partitions 0 to 1" in unknown.error_message


def check_fetch(exchange: Exchange, version: int) -> None:
    answer = exchange.call(requests.fetch(exchange.topic(version), {9: 0, 0: 1}, version=version))
    unknown, found = answer.responses[0].partitions
    assert (unknown.partition_index, unknown.error_code) == (9, 3)
    assert (found.partition_index, found.error_code) == (0, 0)
    assert (found.high_watermark, found.last_stable_offset) == (3, 3)
    assert bytes(found.records)[16] == 2
    assert found.aborted_transactions in ([], None)


def check_list_offsets(exchange: Exchange, version: int) -> None:
    answer = exchange.call(requests.list_offsets("t", {0: -1, 9: -1}, version=version))
    found, unknown = answer.topics[0].partitions
    assert (found.partition_index, found.error_code, found.offset) == (0, 0, 3)
    assert (unknown.partition_index, unknown.error_code, unknown.offset) == (9, 3, -1)
    by_time = exchange.call(requests.list_offsets("t", {0: NOW_MS}, version=version)).topics[0].partitions[0]
    assert (by_time.error_code, by_time.timestamp, by_time.offset) == (0, NOW_MS, 0)


def check_metadata(exchange: Exchange, version: int) -> None:
    answer = exchange.call(requests.metadata("t", f"made-by-v{version}", "bad name", version=version))
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", exchange.port)]
    known, made, bad = answer.topics
    assert [part.leader_id for part in known.partitions] == [1, 1]
    assert (made.error_code, len(made.partitions)) == (0, 1)
    assert (bad.error_code, bad.name) == (17, "bad name")
    everything = requests.metadata(version=version)
    everything.topics = None if version >= 1 else []
    assert {"t", f"made-by-v{version}"} <= {topic.name for topic in exchange.call(everything).topics}
    if version >= 4:
        unknown = exchange.call(requests.metadata("nowhere", version=version, create=False)).topics[0]
        assert unknown.error_code == 3
    if version >= 12:
        by_id = requests.metadata("t", version=version)
        by_id.topics[0].name, by_id.topics[0].topic_id = None, exchange.topic_id
        assert exchange.call(by_id).topics[0].name == "t"
        by_id.topics[0].topic_id = UUID(int=99)
        assert exchange.call(by_id).topics[0].error_code == 100


def check_offset_commit(exchange: Exchange, version: int) -> None:
    group = f"g{version}"
    topic = exchange.topic_id if version >= 10 else "t"
    stranger = requests.commit_offset(group, topic, 1, version=version, generation=3)
    assert exchange.call(stranger).topics[0].partitions[0].error_code == (69 if version >= 9 else 22)
    answer = exchange.call(requests.commit_offset(group, topic, 1, metadata=None, version=version))
    assert answer.topics[0].partitions[0].error_code == 0
    assert exchange.call(stranger).topics[0].partitions[0].error_code == 25
    large = requests.commit_offset(group, topic, 1, metadata="x" * 4097, version=version)
    assert exchange.call(large).topics[0].partitions[0].error_code == 12
    nowhere = UUID(int=99) if version >= 10 else "nowhere"
    unknown = exchange.call(requests.commit_offset(group, nowhere, 1, version=version))
    assert unknown.topics[0].partitions[0].error_code == (100 if version >= 10 else 3)


def check_offset_fetch(exchange: Exchange, version: int) -> None:
    topic = exchange.topic_id if version >= 10 else "t"

    def positions(group: str, topic: str | UUID) -> Any:
        answer = exchange.call(requests.fetch_offset(group, topic, version=version))
        return (answer.groups[0] if version >= 8 else answer).topics[0].partitions[0]

    known = positions("g", topic)
    assert (known.error_code, known.committed_offset, known.metadata) == (0, 2, "note")
    unknown = positions("nobody", topic)
    assert (unknown.error_code, unknown.committed_offset, unknown.metadata) == (0, -1, "")
    nowhere = positions("g", UUID(int=99) if version >= 10 else "nowhere")
    assert (nowhere.error_code, nowhere.committed_offset) == (100 if version >= 10 else 0, -1)
    if version >= 2:
        everything = requests.fetch_offset("g", topic, version=version)
        (everything.groups[0] if version >= 8 else everything).topics = None
        answer = exchange.call(everything)
        (found,) = (answer.groups[0] if version >= 8 else answer).topics
        assert (found.topic_id if version >= 10 else found.name) == topic
        assert found.partitions[0].committed_offset == 2
    if version >= 7:
        who = start(exchange, f"unstable-{version}")
        place = TopicPartition("t", 0)
        request = transactions.txn_offset_commit(who, f"unstable-{version}", {place: 1})
        assert ask(exchange, request, 5).topics[0].partitions[0].error_code == 0
        staged = requests.fetch_offset(f"unstable-{version}", topic, version=version, stable=True)
        answer = exchange.call(staged)
        part = (answer.groups[0] if version >= 8 else answer).topics[0].partitions[0]
        assert (part.error_code, part.committed_offset) == (88, -1)


def check_find_coordinator(exchange: Exchange, version: int) -> None:
    keys: dict[str, Any] = {"coordinator_keys": ["g", "h"]} if version >= 4 else {"key": "g"}
    answer = exchange.call(FindCoordinatorRequest(key_type=0, **keys, version=version))
    found = answer.coordinators if version >= 4 else [answer]
    assert [(one.error_code, one.node_id, one.host, one.port) for one in found] == [
        (0, 1, "127.0.0.1", exchange.port)
    ] * (2 if version >= 4 else 1)
    if version >= 1:
        answer = exchange.call(FindCoordinatorRequest(key_type=1, **keys, version=version))
        assert {one.error_code for one in (answer.coordinators if version >= 4 else [answer])} == {0}
        answer = exchange.call(FindCoordinatorRequest(key_type=2, **keys, version=version))
        assert {one.error_code for one in (answer.coordinators if version >= 4 else [answer])} == {42}


def check_api_versions(exchange: Exchange, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1", version=version)
    answer = exchange.call(request)
    assert answer.error_code == 0
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [
        (key, api.advertised_first, api.last) for key, api in sorted(APIS.items())
    ]
    if version >= 3:
        supported, finalized = answer.supported_features, answer.finalized_features
        assert [(one.name, one.min_version, one.max_version) for one in supported] == [
            ("transaction.version", 0 if version >= 4 else 1, 2)
        ]
        assert [(one.name, one.min_version_level, one.max_version_level) for one in finalized] == [
            ("transaction.version", 2, 2)
        ]
        assert answer.finalized_features_epoch >= 0


def check_create_topics(exchange: Exchange, version: int) -> None:
    name = f"created-by-v{version}"
    created = exchange.call(requests.create_topic(name, partitions=3, version=version)).topics[0]
    assert (created.name, created.error_code, created.error_message) == (name, 0, None)
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        configs = {config.name: (config.value, config.config_source) for config in created.configs}
        assert configs["cleanup.policy"] == ("delete", 5)
    if version >= 7:
        assert created.topic_id == exchange.call(requests.metadata(name, version=10)).topics[0].topic_id
    again = exchange.call(requests.create_topic(name, version=version)).topics[0]
    assert (again.error_code, again.error_message) == (36, f"topic '{name}' exists already")


def check_offset_for_leader_epoch(exchange: Exchange, version: int) -> None:
    topic_class = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    parts = [
        topic_class.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=-1, leader_epoch=epoch, version=version
        )
        for partition, epoch in ((0, 0), (0, 7), (9, 0))
    ]
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[topic_class(topic="t", partitions=parts, version=version)], version=version
    )
    found = exchange.call(request).topics[0].partitions
    assert [(one.error_code, one.leader_epoch, one.end_offset) for one in found] == [
        (0, 0, 3),
        (0, 0, 3),
        (3, -1, -1),
    ]


def check_elect_leaders(exchange: Exchange, version: int) -> None:
    topics = [ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0, 9], version=version)]
    request = ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=1000, version=version)
    (result,) = exchange.call(request).replica_election_results
    needless, unknown = result.partition_result
    assert (needless.error_code, unknown.error_code) == (84, 3)
    unclean = ElectLeadersRequest(election_type=1, topic_partitions=topics, timeout_ms=1000, version=version)
    refused = exchange.call(unclean).replica_election_results[0].partition_result[0]
    assert refused.error_code == (83 if version >= 1 else 84)
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000, version=version)
    assert exchange.call(everything).replica_election_results == []


def check_alter_partition_reassignments(exchange: Exchange, version: int) -> None:
    topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
    wanted: list[tuple[int, list[int] | None]] = [
        (0, [1]),
        (1, [1, 1]),
        (2, [7]),
        (3, []),
        (4, None),
        (9, [1]),
    ]
    exchange.call(requests.create_topic(f"moved-by-v{version}", partitions=5))
    parts = [
        topic_class.ReassignablePartition(partition_index=number, replicas=replicas, version=version)
        for number, replicas in wanted
    ]
    twice = [topic_class.ReassignablePartition(partition_index=0, replicas=[1], version=version)] * 2
    topics = [
        topic_class(name=f"moved-by-v{version}", partitions=parts, version=version),
        topic_class(name="t", partitions=twice, version=version),
    ]
    answer = exchange.call(
        AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=topics, version=version)
    )
    moved, named_twice = answer.responses
    assert (answer.error_code, moved.name) == (0, f"moved-by-v{version}")
    codes = [(one.partition_index, one.error_code) for one in moved.partitions]
    assert codes == [(0, 0), (1, 39), (2, 39), (3, 39), (4, 85), (9, 3)]
    assert "no store 7" in moved.partitions[2].error_message
    assert [one.error_code for one in named_twice.partitions] == [42, 42]


def check_list_partition_reassignments(exchange: Exchange, version: int) -> None:
    topic_class = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    named = [topic_class(name=name, partition_indexes=[0, 9], version=version) for name in ("t", "nowhere")]
    for topics in (None, named):
        request = ListPartitionReassignmentsRequest(timeout_ms=1000, topics=topics, version=version)
        answer = exchange.call(request)
        assert (answer.error_code, answer.topics) == (0, [])


def check_describe_log_dirs(exchange: Exchange, version: int) -> None:
    topic_class = DescribeLogDirsRequest.DescribableLogDirTopic
    wanted = [
        topic_class(topic="t", partitions=[0, 9], version=version),
        topic_class(topic="unknown", partitions=[0], version=version),
    ]
    (result,) = exchange.call(DescribeLogDirsRequest(topics=wanted, version=version)).results
    ((topic,), parts) = result.topics, result.topics[0].partitions
    assert (result.error_code, topic.name) == (0, "t")
    assert [(one.partition_index, one.partition_size, one.offset_lag) for one in parts] == [
        (0, len(batch(b"a", b"b", b"c")), 0)
    ]
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
    (everything,) = exchange.call(DescribeLogDirsRequest(topics=None, version=version)).results
    assert "t" in {one.name for one in everything.topics}


def check_describe_cluster(exchange: Exchange, version: int) -> None:
    options: dict[str, Any] = {"endpoint_type": 1} if version >= 1 else {}
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, **options, version=version)
    answer = exchange.call(request)
    (broker,) = answer.brokers
    assert (answer.error_code, answer.controller_id) == (0, 1)
    assert (broker.broker_id, broker.host, broker.port) == (1, "127.0.0.1", exchange.port)
    if version >= 1:
        controllers = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=2, version=version
        )
        assert exchange.call(controllers).error_code == 114


def check_describe_producers(exchange: Exchange, version: int) -> None:
    exchange.call(requests.create_topic("idempotent"))
    exchange.call(requests.produce("idempotent", {0: batch(b"a", b"b", producer_id=7, base_sequence=0)}))
    topic_class = DescribeProducersRequest.TopicRequest
    wanted = [topic_class(name="idempotent", partition_indexes=[0, 9], version=version)]
    answer = exchange.call(DescribeProducersRequest(topics=wanted, version=version))
    found, unknown = answer.topics[0].partitions
    (producer,) = found.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 0, 1)
    assert producer.current_txn_start_offset == -1
    assert (unknown.error_code, unknown.active_producers) == (3, [])
    who = start(exchange, "open-transaction")
    offset = stored(exchange, who)
    wanted = [topic_class(name="txn", partition_indexes=[0], version=version)]
    answer = exchange.call(DescribeProducersRequest(topics=wanted, version=version))
    starts = {
        one.producer_id: one.current_txn_start_offset
        for one in answer.topics[0].partitions[0].active_producers
    }
    assert starts[who.producer_id] == offset


def check_describe_topic_partitions(exchange: Exchange, version: int) -> None:
    exchange.call(requests.create_topic("paged-a", partitions=3))
    exchange.call(requests.create_topic("paged-b", partitions=2))
    names = ("paged-b", "paged-a", "paged-none")
    wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=name, version=version) for name in names]
    seen: list[tuple[str, int, list[int]]] = []
    cursor: Any = None
    pages = 0
    while cursor is not None or pages == 0:
        answer = exchange.call(
            DescribeTopicPartitionsRequest(
                topics=wanted, response_partition_limit=2, cursor=cursor, version=version
            )
        )
        pages += 1
        for topic in answer.topics:
            numbers = [one.partition_index for one in topic.partitions]
            assert all((one.leader_id, one.isr_nodes) == (1, [1]) for one in topic.partitions)
            seen.append((topic.name, topic.error_code, numbers))
        cursor = answer.next_cursor
    assert seen == [
        ("paged-a", 0, [0, 1]),
        ("paged-a", 0, [2]),
        ("paged-b", 0, [0]),
        ("paged-b", 0, [1]),
        ("paged-none", 3, []),
    ]
    assert pages == 3


CHECKS: dict[int, Callable[[Exchange, int], None]] = {
    0: check_produce,
    1: check_fetch,
    2: check_list_offsets,
    3: check_metadata,
    8: check_offset_commit,
    9: check_offset_fetch,
    10: check_find_coordinator,
    18: check_api_versions,
    19: check_create_topics,
    23: check_offset_for_leader_epoch,
    35: check_describe_log_dirs,
    60: check_describe_cluster,
    61: check_describe_producers,
    75: check_describe_topic_partitions,
    43: check_elect_leaders,
    45: check_alter_partition_reassignments,
    46: check_list_partition_reassignments,
    **GROUP_CHECKS,
    **TOPIC_CHECKS,
    **TRANSACTION_CHECKS,
}


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_version_is_answered_in_kind(exchange: Exchange, key: int, version: int) -> None:
    """The answer has the fields of its version, every byte is accounted for, and it says what is true."""
    CHECKS[key](exchange, version)


@pytest.mark.parametrize("version", [5, 99, 32767, -1, -32768])
def test_unknown_version_of_api_versions_is_answered_in_v0(exchange: Exchange, version: int) -> None:
    """UNSUPPORTED_VERSION with the list of what is there, so that the client can ask again (KIP-511)."""
    with RawClient(exchange.port) as client:
        body = b"\0\x12" + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x07\xff\xff" + b"\0newer"
        client.socket.sendall(len(body).to_bytes(4, "big") + body)
        request = ApiVersionsRequest(version=0)
        answer = client.receive(request)
        assert (answer.header.correlation_id, answer.error_code) == (7, 35)
        assert {one.api_key for one in answer.api_keys} == set(APIS)
        assert client.call(request).error_code == 0, "the connection goes on"
