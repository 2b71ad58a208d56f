"""Bootstrap lists, metadata and offsets."""

import socket
from contextlib import ExitStack

import pytest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from holdfast.client.cluster import Address, Cluster, parse_bootstrap
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.errors import ConnectionFailed, TransientRefusal, UnknownTopicOrPartition, UsageError
from holdfast.records.build import build_batch
from holdfast.records.record import Record
from tests.client.fake_cluster import FakeCluster, fake_cluster


def test_bootstrap_list() -> None:
    """Several addresses, spaces and IPv6 brackets are read."""
    assert parse_bootstrap("a:1, [::1]:2,") == (Address(host="a", port=1), Address(host="::1", port=2))


@pytest.mark.parametrize("text", ["", " , ", "a", "a:", ":1", "a:b", "a:0", "a:65536", "a:-1", "a:1 b:2"])
def test_bad_bootstrap_list(text: str) -> None:
    """What is not host:port is refused before anything is connected."""
    with pytest.raises(UsageError, match="host:port"):
        parse_bootstrap(text)


def test_topic() -> None:
    """Metadata gives partitions, leader and replicas, and never asks the broker to create the topic."""
    with fake_cluster() as (brokers, client):
        brokers.leader = 1
        partition = client.topic("orders").partitions[0]
        assert (partition.leader, partition.replicas, partition.in_sync) == (1, (0, 1), (0, 1))
        assert brokers.brokers[0].received[0].allow_auto_topic_creation is False


def test_unknown_topic() -> None:
    """A topic that does not exist is one clear error, at once."""
    with fake_cluster() as (_, client), pytest.raises(UnknownTopicOrPartition, match="no topic 'nope'"):
        client.topic("nope")


def test_second_bootstrap_address() -> None:
    """A dead address in the list does not matter while another one answers."""
    with ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dead = f"127.0.0.1:{listener.getsockname()[1]}"
        brokers = FakeCluster(stack)
        client = stack.enter_context(Cluster(f"{dead},{brokers.bootstrap}"))
        assert client.topic("orders").name == "orders"


def test_no_broker_answers() -> None:
    """When no address answers, all of them are named."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = one.getsockname()[1], two.getsockname()[1]
    with (
        Cluster(",".join(f"127.0.0.1:{port}" for port in ports)) as client,
        pytest.raises(ConnectionFailed, match=rf"{ports[0]} \(.*{ports[1]} \("),
    ):
        client.metadata()


def test_offsets() -> None:
    """Earliest and latest, asked from the leader with the isolation level."""
    with fake_cluster() as (brokers, client):
        brokers.log, brokers.log_start, brokers.leader = (
            build_batch([Record(value=b"x")], base_offset=41),
            7,
            1,
        )
        assert list_offsets(client, "orders", {0: EARLIEST}) == {0: 7}
        assert list_offsets(client, "orders", {0: LATEST}, isolation=Isolation.READ_COMMITTED) == {0: 42}
        asked = [each for each in brokers.brokers[1].received if isinstance(each, ListOffsetsRequest)]
        assert [each.isolation_level for each in asked] == [0, 1]


def test_offsets_follow_a_moved_leader() -> None:
    """A node that leads no longer is asked once; metadata then names the new leader."""
    with fake_cluster() as (brokers, client):
        client.topic("orders")
        brokers.leader = 1
        assert list_offsets(client, "orders", {0: EARLIEST}) == {0: 0}


def test_offsets_without_a_leader() -> None:
    """A partition that nobody leads is waited for, and no longer than the patience lasts."""
    with fake_cluster(patience_s=0.2) as (brokers, client):
        brokers.leader = -1
        with pytest.raises(TransientRefusal, match="orders-0 has no leader"):
            list_offsets(client, "orders", {0: EARLIEST})


def test_offsets_left_out_of_an_answer() -> None:
    """An answer that skips a partition is an error in the end, never an endless loop."""
    with fake_cluster(patience_s=0.2) as (brokers, client):
        brokers.brokers[0].handlers[ListOffsetsRequest.API_KEY] = lambda _: {"topics": []}
        with pytest.raises(ConnectionFailed, match=r"left partitions \[0\] of orders out"):
            list_offsets(client, "orders", {0: EARLIEST})


def test_broker_restart() -> None:
    """A connection that the broker closed is opened again on the next question."""
    with fake_cluster() as (brokers, client):
        metadata = brokers.brokers[0].handlers[MetadataRequest.API_KEY]
        client.topic("orders")
        brokers.brokers[0].handlers[MetadataRequest.API_KEY] = lambda _: None
        with pytest.raises(ConnectionFailed):
            client.topic("orders")
        brokers.brokers[0].handlers[MetadataRequest.API_KEY] = metadata
        assert client.topic("orders").name == "orders"
