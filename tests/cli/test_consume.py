"""`holdfast consume` against a real cluster."""

import json
import select
import signal
import subprocess
from pathlib import Path
from typing import IO

import pytest

from holdfast.cli.record_format import to_time
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.producer import Producer
from holdfast.records.batch import Codec
from holdfast.records.record import Record
from tests.cli.commands import SECONDS_MAX, Command
from tests.process import HoldfastProcess

T0 = 1_700_000_000_000
TEN = {
    partition: [
        Record(key=b"k%d" % number, value=b"v%d.%d" % (partition, number), timestamp_ms=T0 + 1000 * number)
        for number in range(5)
    ]
    for partition in range(2)
}


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    """A topic of two partitions with five records each, a second apart, in a codec that kafka-python cannot read."""
    Producer(cluster, topic, codec=Codec.ZSTD).send(TEN)
    return topic


def line_of(stream: IO[bytes] | None) -> bytes:
    """The next line, for which nobody waits for ever."""
    assert stream is not None
    readable, _, _ = select.select([stream], [], [], SECONDS_MAX)
    assert readable, "no line"
    return stream.readline()


def test_lines(command: Command, cluster: Cluster, topic: str) -> None:
    """Place, time, key, value and headers stand in a line; nothing in it can steer a terminal."""
    records = [
        Record(key=b"k", value=b"v", headers=[("h", b"1"), ("n", None)], timestamp_ms=T0 + 7),
        Record(key=None, value=b"\x1b[31mred\n\xff", timestamp_ms=T0),
        Record(key=b"gone", value=None, timestamp_ms=T0),
    ]
    Producer(cluster, topic).send({1: records})
    assert command.ok("consume", topic).text.splitlines() == [
        "1:0  2023-11-14T22:13:20.007Z  k  v  h=1  n=",
        "1:1  2023-11-14T22:13:20.000Z  -  \\x1b[31mred\\n\\xff",
        "1:2  2023-11-14T22:13:20.000Z  gone  (tombstone)",
    ]
    assert command.ok("consume", topic, "--raw").out == b"v\n\x1b[31mred\n\xff\n\n"


def test_json(command: Command, cluster: Cluster, topic: str) -> None:
    """One object a line; what is no text is marked as base64, or all is with --base64."""
    record = Record(key=b"\xff", value=b"v", headers=[("h", b"1")], timestamp_ms=T0)
    Producer(cluster, topic).send({1: [record]})
    place = {"topic": topic, "partition": 1, "offset": 0, "timestamp": T0}
    assert command.ok("consume", topic, "--json").lines == [
        {**place, "key": {"base64": "/w=="}, "value": "v", "headers": [["h", "1"]]}
    ]
    assert command.ok("consume", topic, "--json", "--base64").lines == [
        {**place, "key": "/w==", "value": "dg==", "headers": [["h", "MQ=="]]}
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]),
        (("--from", "end"), [[], []]),
        (("--from", "3"), [[3, 4], [3, 4]]),
        (("--from", "5", "-p", "0"), [[], []]),
        (("--from", "-2", "-p", "1"), [[], [3, 4]]),
        (("--from", "-99"), [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]),
        (("--from", f"@{T0 + 1500}"), [[2, 3, 4], [2, 3, 4]]),
        (("--from", to_time(T0 + 4000), "-p", "0"), [[4], []]),
        (("--from", "2023-11-14T23:13:24+01:00", "-p", "0"), [[4], []]),
        (("--from", f"@{T0 + 99_000}"), [[], []]),
        (("-n", "3", "-p", "0"), [[0, 1, 2], []]),
        (("-n", "99", "--until-end", "-p", "1"), [[], [0, 1, 2, 3, 4]]),
        (("--isolation", "read_uncommitted", "-p", "1", "-n", "1"), [[], [0]]),
    ],
)
def test_from_and_how_far(
    cluster: Cluster, bootstrap: str, options: tuple[str, ...], expected: list[list[int]]
) -> None:
    """Beginning, end, offset, count before the end and time say where; count and end say how far."""
    name = "ten-records"
    if name not in cluster.metadata([name]).topics:
        Command(bootstrap).ok("topic", "create", name, "-p", "2")
        Producer(cluster, name).send(TEN)
    found: list[list[int]] = [[], []]
    for line in Command(bootstrap).ok("consume", name, "--json", *options).lines:
        found[line["partition"]].append(line["offset"])
    assert found == expected


def test_follow(command: Command, cluster: Cluster, topic: str) -> None:
    """--follow shows what comes later; ^C ends it with 0 and without a word."""
    producer = Producer(cluster, topic)
    with command.start("consume", topic, "--follow", "--raw") as process:
        for value in (b"one", b"two"):
            producer.send({0: [Record(value=value, timestamp_ms=T0)]})
            assert line_of(process.stdout) == value + b"\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out, err) == (0, b"", b"")


def test_closed_pipe(command: Command, cluster: Cluster, topic: str) -> None:
    """A reader that has seen enough, as `head` does, ends it without a word."""
    Producer(cluster, topic).send({0: [Record(value=b"x" * 1000, timestamp_ms=T0)] * 500})
    with command.start("consume", topic, "--raw", "--follow") as process:
        line_of(process.stdout)
        assert process.stdout is not None
        process.stdout.close()
        Producer(cluster, topic).send({0: [Record(value=b"x" * 1000, timestamp_ms=T0)] * 500})
        assert process.wait(SECONDS_MAX) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_group(command: Command, cluster: Cluster, filled: str) -> None:
    """A member reads from the group's offsets on and commits what it has printed, no more and no less."""
    group = f"{filled}-group"
    first = command.ok("consume", filled, "-g", group, "-n", "4", "--raw").out.split()
    assert len(first) == 4
    committed = fetch_group_offsets(cluster, group)
    assert sum(committed.values()) == 4
    rest = command.ok("consume", filled, "-g", group, "--raw").out.split()
    assert sorted(first + rest) == sorted(record.value or b"" for batch in TEN.values() for record in batch)
    assert command.ok("consume", filled, "-g", group).out == b""
    assert fetch_group_offsets(cluster, group) == {TopicPartition(filled, number): 5 for number in range(2)}


def test_group_without_membership(command: Command, cluster: Cluster, filled: str) -> None:
    """Named partitions are read with a group's offsets too; --from counts where the group has none."""
    group = f"{filled}-group"
    options = ("consume", filled, "-g", group, "-p", "1", "--raw", "--from", "3")
    assert command.ok(*options).out == b"v1.3\nv1.4\n"
    assert fetch_group_offsets(cluster, group) == {TopicPartition(filled, 1): 5}
    assert command.ok(*options).out == b""


def test_two_members_share(command: Command, cluster: Cluster, topic: str) -> None:
    """Two commands of one group read a partition each; while they do, partitions cannot be named."""
    producer = Producer(cluster, topic)
    arguments = ("consume", topic, "-g", f"{topic}-group", "--follow", "--json")
    with command.start(*arguments) as one, command.start(*arguments) as two:
        try:
            seen: dict[int, set[int]] = {}
            for turn in range(200):
                producer.send({number: [Record(value=b"%d" % turn, timestamp_ms=T0)] for number in range(2)})
                for _ in range(2):
                    collect(seen, one, two)
                if all(seen.get(id(each)) for each in (one, two)) and not seen[id(one)] & seen[id(two)]:
                    break
                # Begin anew: before the second one had joined, the first read both.
                seen.clear()
            assert sorted(map(sorted, seen.values())) == [[0], [1]]
            assert "has members" in command.refused("consume", topic, "-g", f"{topic}-group", "-p", "0")
        finally:
            for each in (one, two):
                each.send_signal(signal.SIGINT)
        for each in (one, two):
            _, err = each.communicate(timeout=SECONDS_MAX)
            assert (each.returncode, err) == (0, b"")
    ends = {TopicPartition(topic, number): turn + 1 for number in range(2)}
    assert fetch_group_offsets(cluster, f"{topic}-group") == ends


def collect(seen: dict[int, set[int]], *processes: "subprocess.Popen[bytes]") -> None:
    """Note which process printed a record of which partition."""
    by_stream = {each.stdout: each for each in processes if each.stdout is not None}
    readable, _, _ = select.select(list(by_stream), [], [], SECONDS_MAX)
    assert readable, "no record"
    stream = readable[0]
    seen.setdefault(id(by_stream[stream]), set()).add(json.loads(stream.readline())["partition"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("no-such-topic",), 1, "`holdfast topic list`"),
        (("TOPIC", "-p", "2"), 1, "has no partition 2: it has 0 to 1"),
        (("TOPIC", "--from", "1"), 1, "offset 1 is not in"),
        (("TOPIC", "--from", "yesterday"), 2, "an ISO time such as"),
        (("TOPIC", "--raw", "--json"), 2, "exclude each other"),
        (("TOPIC", "--base64"), 2, "add --json"),
        (("TOPIC", "-g", ""), 2, "--group takes a name"),
        (("TOPIC", "-n", "0"), 2, "0 is not in the range"),
    ],
)
def test_refusals(command: Command, topic: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    """What cannot be done is one line that says why, and the right exit code."""
    named = [topic if word == "TOPIC" else word for word in arguments]
    assert said in command.refused("consume", *named, code=code)


def test_follow_outlives_a_restart(tmp_path: Path) -> None:
    """A broker that is killed and comes back is read on, each record once."""
    with HoldfastProcess(tmp_path / "data") as process:
        command = Command(process.bootstrap)
        command.ok("topic", "create", "t", "-p", "1")
        with command.start("consume", "t", "--follow", "--raw") as reader:
            command.ok("produce", "t", "-v", "before")
            assert line_of(reader.stdout) == b"before\n"
            process.kill()
            process.start()
            command.ok("produce", "t", "-v", "after")
            assert line_of(reader.stdout) == b"after\n"
            reader.send_signal(signal.SIGINT)
            out, err = reader.communicate(timeout=SECONDS_MAX)
    assert (reader.returncode, out, err) == (0, b"", b"")
