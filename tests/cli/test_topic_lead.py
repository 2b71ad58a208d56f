"""`holdfast topic lead` on three nodes, with clients that go on meanwhile."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from holdfast.cli.topic import topic
from holdfast.client import admin as client
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from tests.cli.commands import Answer, run_holdfast
from tests.cli.test_completion import completed
from tests.process import HoldfastProcess

SECONDS_MAX = 60.0
MOVES = (2, 3, 1, 2)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    with HoldfastProcess(tmp_path_factory.mktemp("lead") / "data", "--nodes", "3") as process:
        with Cluster(process.bootstrap) as cluster:
            for name in ("orders", "busy"):
                create_topic(cluster, name, partitions=3, replication_factor=3)
            create_topic(cluster, "narrow", partitions=1, replication_factor=1)
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


def lead(process: HoldfastProcess, *words: str) -> Answer:
    return run_holdfast("topic", "lead", *words, "--data", str(process.data))


def leaders(process: HoldfastProcess, name: str) -> list[int]:
    with Cluster(process.bootstrap) as cluster:
        return [part.leader for _, part in sorted(cluster.topic(name).partitions.items())]


def test_one_and_all(trio: HoldfastProcess) -> None:
    """One partition moves alone; then all, and those that need no move are said to lead already."""
    before = leaders(trio, "orders")
    node = before[0] % 3 + 1
    answer = lead(trio, "orders:0", str(node))
    assert (answer.code, answer.text) == (0, f"node {node} leads orders:0, which node {before[0]} led\n")
    assert leaders(trio, "orders") == [node, *before[1:]]
    found = lead(trio, "orders", str(node), "--json").json
    assert (found["topic"], found["node"]) == ("orders", node)
    assert [each["moved"] for each in found["partitions"]] == [False, *(was != node for was in before[1:])]
    assert leaders(trio, "orders") == [node] * 3
    again = lead(trio, "orders", str(node))
    assert (again.code, again.text.splitlines()[0]) == (0, f"node {node} leads orders:0 already")


def test_refusals(trio: HoldfastProcess) -> None:
    """The answer no is exit code 1, bad usage is 2, each in one line on stderr."""
    (holder,) = leaders(trio, "narrow")
    other = str(holder % 3 + 1)
    for words, code, said in (
        (("none", "1"), 1, "no topic 'none'"),
        (("orders:9", "1"), 1, "'orders' has partitions 0 to 2"),
        (("orders:0", "7"), 1, "no node 7: there are 1, 2, 3"),
        (("narrow", other), 1, f"node {other} has no replica of narrow:0"),
        (("orders:x", "1"), 2, "such as orders:0"),
        (("orders:", "1"), 2, "such as orders:0"),
        ((":0", "1"), 2, "such as orders:0"),
        (("orders", "two"), 2, "'two' is not a valid integer"),
        (("orders", "0"), 2, "0 is not in the range"),
        (("orders",), 2, "Missing argument 'NODE'"),
    ):
        answer = lead(trio, *words)
        assert (answer.code, answer.out) == (code, b""), words
        (line,) = answer.err.splitlines()
        assert said in line
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    nobody = run_holdfast("topic", "lead", "orders", "1", "--admin", f"127.0.0.1:{free}")
    assert (nobody.code, "is Holdfast running?" in nobody.err) == (1, True)


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_move_that_fails(monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]) -> None:
    """One partition that stays as it is makes the answer no, and is named on stderr."""
    moves = [
        {"partition": 0, "was": 1, "moved": True, "error": None},
        {"partition": 1, "was": 1, "moved": False, "error": "no store took it"},
    ]
    found = {"topic": "t", "node": 2, "partitions": moves}
    monkeypatch.setattr(client, "post_json", lambda *asked: found)
    result = CliRunner().invoke(topic, ["lead", "t", "2", "--admin", "127.0.0.1:1", *option])
    assert (result.exit_code, result.stderr) == (1, "holdfast: t:1 stays as it is: no store took it\n")
    if option:
        assert json.loads(result.stdout) == found
    else:
        assert result.stdout == "node 2 leads t:0, which node 1 led\n"


def test_clients_go_on(trio: HoldfastProcess) -> None:
    """A producer that never pauses and a consumer see every record once and in order, whoever leads."""
    bootstrap = {"bootstrap.servers": trio.bootstrap}
    acknowledged: list[int] = []
    enough = threading.Event()

    def produce() -> None:
        producer = Producer({**bootstrap, "enable.idempotence": True, "linger.ms": 0})
        number = 0
        while not enough.is_set():
            producer.produce(
                "busy",
                b"%d" % number,
                partition=0,
                on_delivery=lambda failure, message: acknowledged.append(
                    -1 if failure else int(message.value())
                ),
            )
            number += 1
            # As many in flight as the client may have, at any time: no move finds the partition at rest.
            producer.poll(0.001)
        assert producer.flush(SECONDS_MAX) == 0

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while len(acknowledged) < count:
            assert time.monotonic() < deadline, f"{len(acknowledged)} of {count} were acknowledged"
            time.sleep(0.005)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for node in MOVES:
            wait_for(len(acknowledged) + 50)
            answer = lead(trio, "busy:0", str(node))
            assert answer.code == 0, answer.err
            assert leaders(trio, "busy")[0] == node
        wait_for(len(acknowledged) + 50)
    finally:
        enough.set()
        thread.join(SECONDS_MAX)
    assert acknowledged == list(range(len(acknowledged)))

    consumer = Consumer({**bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("busy", 0, 0)])
    values: list[int] = []
    deadline = time.monotonic() + SECONDS_MAX
    moves = iter((1, 3))
    while len(values) < len(acknowledged):
        assert time.monotonic() < deadline, f"{len(values)} of {len(acknowledged)} came"
        messages = consumer.consume(max(len(acknowledged) // 3, 1), 1.0)
        values += [int(message.value()) for message in messages if not message.error()]
        if (other := next(moves, None)) is not None:
            assert lead(trio, "busy:0", str(other)).code == 0
    consumer.close()
    assert values == acknowledged


def test_completion(trio: HoldfastProcess) -> None:
    """Topics, their partitions and nodes come from the Holdfast that is named."""
    where = f"--data {trio.data}"
    nowhere = "127.0.0.1:1"
    assert completed(f"holdfast topic lead {where} ord", nowhere) == ["orders"]
    assert completed(f"holdfast topic lead {where} orders:", nowhere) == ["orders:0", "orders:1", "orders:2"]
    assert completed(f"holdfast topic lead {where} orders ", nowhere) == ["1", "2", "3"]
    assert completed("holdfast topic lead --admin 127.0.0.1:1 ord", nowhere) == []
