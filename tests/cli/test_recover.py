"""`holdfast recover`: the control plane is made anew from the stores, and everything is as it was."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.agent import requests
from tests.agent.batches import batch
from tests.agent.raw import RawClient
from tests.process import HoldfastProcess

SECONDS_MAX = 20.0


def run(*arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    """`holdfast recover` to its end, which must have this code and leave no traceback."""
    words = [sys.executable, "-m", "holdfast", "recover", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(params=[1, 3])
def used(request: pytest.FixtureRequest, tmp_path: Path) -> HoldfastProcess:
    """A stopped cluster of one node or three with records, an idempotent producer and a group's position."""
    process = HoldfastProcess(tmp_path / "data", "--nodes", str(request.param))
    process.start()
    producer = Producer({"bootstrap.servers": process.bootstrap})
    for number in range(50):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 20)], asynchronous=False)
    consumer.close()
    with RawClient(process.port) as client:
        client.call(requests.create_topic("exact", replicas=-1))
        leader_port = port_of_leader(client, "exact")
    with RawClient(leader_port) as client:
        client.call(requests.produce("exact", {0: batch(b"a", producer_id=9)}, acks=1))
    process.stop()
    return process


def port_of_leader(client: RawClient, topic: str) -> int:
    answer = client.call(requests.metadata(topic))
    leader = answer.topics[0].partitions[0].leader_id
    port: int = next(broker.port for broker in answer.brokers if broker.node_id == leader)
    return port


def check(process: HoldfastProcess) -> None:
    """All records, the group's position, and the producer's sequence are there."""
    with process:
        consumer = Consumer({"bootstrap.servers": process.bootstrap, "group.id": "readers"})
        (position,) = consumer.committed([TopicPartition("orders", 0)], timeout=SECONDS_MAX)
        assert position.offset == 20
        consumer.assign([TopicPartition("orders", 0, 0)])
        values: list[bytes] = []
        while len(values) < 50:
            messages = consumer.consume(50, SECONDS_MAX)
            assert messages
            values += [message.value() for message in messages]
        assert values == [b"%d" % number for number in range(50)]
        consumer.close()
        with RawClient(process.port) as client:
            leader_port = port_of_leader(client, "exact")
        with RawClient(leader_port) as client:
            again: Any = client.call(requests.produce("exact", {0: batch(b"a", producer_id=9)}, acks=1))
            following: Any = client.call(
                requests.produce("exact", {0: batch(b"b", producer_id=9, base_sequence=1)}, acks=1)
            )
        answers = [one.responses[0].partition_responses[0] for one in (again, following)]
        assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 1)]


def test_the_control_plane_is_made_anew(used: HoldfastProcess) -> None:
    """With control.db gone, and with one that is there, which is set aside."""
    (used.data / "control.db").unlink()
    told = run("--data", str(used.data), "--json")
    rebuilt = json.loads(told.stdout)
    assert (rebuilt["topics"], rebuilt["records_end"], rebuilt["set_aside"]) == (2, 51, None)
    assert rebuilt["frames"] > 0
    again = run("--data", str(used.data))
    assert "2 topics, 2 partitions, 51 offsets" in again.stdout
    assert (used.data / "control.db.before-recover-1").exists()
    check(used)


def test_one_store_alone_is_enough(used: HoldfastProcess) -> None:
    """The last store holds everything by itself; the others are out of sync then."""
    last = len(list((used.data / "stores").iterdir()))
    told = run("--data", str(used.data), "--store", str(last), "--json")
    assert json.loads(told.stdout)["in_sync"] == [last]
    check(used)


def test_mistakes_are_told_in_a_line(tmp_path: Path) -> None:
    """No data directory, no such store, a directory in use."""
    assert "no data directory" in run("--data", str(tmp_path / "none"), code=2).stderr
    with HoldfastProcess(tmp_path / "data") as process:
        assert "in use by another process" in run("--data", str(process.data), code=1).stderr
        process.stop()
        told = run("--data", str(process.data), "--store", "2", code=2)
        assert "has stores 1 to 1" in told.stderr
        process.start()
