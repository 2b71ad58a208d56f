"""`holdfast topic` against a real cluster."""

import socket
import threading
from contextlib import suppress

import pytest
from kafka.protocol.admin import DeleteTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest

from holdfast.client.cluster import Cluster
from holdfast.errors import UnsupportedVersion
from tests.cli.commands import Command


def offers(cluster: Cluster, *requests: object) -> bool:
    """Whether the broker takes all of these requests."""
    try:
        for request in requests:
            cluster.any_broker().check_offers(request, versions=(0, 100))
    except UnsupportedVersion:
        return False
    return True


def test_create_list_describe(command: Command, cluster: Cluster) -> None:
    """A topic is there once create returns; list and describe tell all of it, in JSON and as tables."""
    created = command.ok(
        "topic", "create", "created", "-p", "2", "-c", "max.message.bytes=5000", "--json"
    ).json
    topic_id = str(cluster.topic("created").topic_id)
    summary = {"name": "created", "id": topic_id, "partitions": 2, "replicas": 1}
    assert created == {"created": True, **summary}
    assert summary in command.ok("topic", "list", "--json").json
    listed = command.ok("topic", "list").text.splitlines()
    assert listed[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert ["created", "2", "1"] in [line.split() for line in listed]

    command.ok("produce", "created", "-p", "1", "-v", "a", "-v", "b")
    described = command.ok("topic", "describe", "created", "--json").json
    node = next(iter(cluster.metadata().brokers))
    place = {"leader": node, "replicas": [node], "in_sync": [node], "start": 0}
    assert described["partitions"] == [
        {"partition": 0, **place, "end": 0},
        {"partition": 1, **place, "end": 2},
    ]
    if offers(cluster, DescribeConfigsRequest):
        assert described["configs"]["max.message.bytes"] == {"value": "5000", "source": "topic"}
    else:
        assert described["configs"] is None
    shown = [line.split() for line in command.ok("topic", "describe", "created").text.splitlines()]
    assert ["1", str(node), str(node), str(node), "0", "2"] in shown


def test_create_twice(command: Command, topic: str) -> None:
    """A second time is refused with the reason; --if-not-exists calls it good and changes nothing."""
    assert "exists" in command.refused("topic", "create", topic)
    again = command.ok("topic", "create", topic, "-p", "5", "--if-not-exists", "--json").json
    assert (again["created"], again["partitions"]) == (False, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "bad/name"), 1, "INVALID_TOPIC"),
        (("create", "many", "-r", "99"), 1, "INVALID_REPLICATION_FACTOR"),
        (("create", "strange", "-c", "no.such.config=1"), 1, "INVALID_CONFIG"),
        (("create", "strange", "-c", "max.message.bytes"), 2, "KEY=VALUE"),
        (("create", "none", "-p", "0"), 2, "0 is not in the range"),
        (("describe", "no-such-topic"), 1, "`holdfast topic list`"),
        (("config", "no-such-topic"), 1, "`holdfast topic list`"),
        (("delete", "no-such-topic", "-y"), 1, "`holdfast topic list`"),
    ],
)  # fmt: skip
def test_refusals(command: Command, arguments: tuple[str, ...], code: int, said: str) -> None:
    """What cannot be done is one line that says why, and the right exit code."""
    assert said in command.refused("topic", *arguments, code=code)


def test_near_miss(command: Command, topic: str) -> None:
    """A slip in a name is answered with the name that was meant."""
    assert command.refused("topic", "describe", f"{topic}s").endswith(f"did you mean {topic!r}?")


def test_delete(command: Command, cluster: Cluster, topic: str) -> None:
    """Nothing is deleted without consent; with it the topic is gone, or the broker is said not to offer it."""
    asked = command.run("topic", "delete", topic, stdin=b"n\n")
    assert asked.code == 130
    assert topic in cluster.metadata([topic]).topics
    if not offers(cluster, DeleteTopicsRequest):
        assert command.refused("topic", "delete", topic, "-y").endswith("does not offer DeleteTopics")
        return
    assert command.ok("topic", "delete", topic, "-y", "--json").json == {
        topic: {"deleted": True, "error": None}
    }
    assert topic not in cluster.metadata([topic]).topics


def test_config(command: Command, cluster: Cluster, topic: str) -> None:
    """Configs are set and unset one by one, and shown as they are afterwards."""
    if not offers(cluster, DescribeConfigsRequest, IncrementalAlterConfigsRequest):
        assert "does not offer" in command.refused("topic", "config", topic, "max.message.bytes=7000")
        return
    both = command.ok(
        "topic", "config", topic, "max.message.bytes=7000", "message.timestamp.type=LogAppendTime", "--json"
    ).json
    assert both == {
        "max.message.bytes": {"value": "7000", "source": "topic"},
        "message.timestamp.type": {"value": "LogAppendTime", "source": "topic"},
    }
    after = command.ok("topic", "config", topic, "--unset", "max.message.bytes", "--json").json
    assert after["max.message.bytes"] == {"value": "1048588", "source": "default"}
    assert after["message.timestamp.type"]["source"] == "topic"
    assert "INVALID_CONFIG" in command.refused("topic", "config", topic, "max.message.bytes=much")


def test_nobody_there(bootstrap: str) -> None:
    """An address where nobody listens is one line with advice, at once; a bad address is bad usage."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    said = Command(f"127.0.0.1:{free}").refused("topic", "list")
    assert f"cannot connect to 127.0.0.1:{free}" in said
    assert "is the broker running" in said
    assert "host:port" in Command("nonsense").refused("topic", "list", code=2)
    # One broker of several is enough.
    Command(f"127.0.0.1:{free},{bootstrap}").ok("topic", "list")


def test_somebody_else_there() -> None:
    """What listens there but speaks no Kafka is one line too."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        said = Command(f"127.0.0.1:{server.getsockname()[1]}").refused("topic", "list")
        thread.join()
    assert "does a Kafka broker listen there" in said
