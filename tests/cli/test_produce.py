"""`holdfast produce` against a real cluster; what arrived is read back with a client of its own."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from tests.cli.commands import SECONDS_MAX, Command

Found = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]] | None]


@contextmanager
def reader(bootstrap: str, topic: str, partitions: int = 2) -> Iterator[confluent_kafka.Consumer]:
    """librdkafka, from the beginning of all partitions."""
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    with closing(confluent_kafka.Consumer(config)) as consumer:
        places = [
            confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
            for number in range(partitions)
        ]
        consumer.assign(places)
        yield consumer


def read(bootstrap: str, topic: str, count: int) -> list[Found]:
    """Partition, key, value and headers of the records in the topic, by partition."""
    with reader(bootstrap, topic) as consumer:
        messages = consumer.consume(count, timeout=SECONDS_MAX)
    assert len(messages) == count
    found = [(each.partition(), each.key(), each.value(), each.headers()) for each in messages]
    return sorted(found, key=lambda each: each[0])


def test_lines(command: Command, topic: str) -> None:
    """Each line is a value, empty ones too; the end of the last one may be missing."""
    answer = command.ok("produce", topic, "-p", "1", stdin=b"a\n\nc\xff\r\nlast")
    assert (answer.out, answer.err) == (b"", "4 records produced to partition 1\n")
    values = [value for _, _, value, _ in read(command.bootstrap, topic, 4)]
    assert values == [b"a", b"", b"c\xff\r", b"last"]


def test_nothing(command: Command, topic: str) -> None:
    """No input is no error."""
    assert command.ok("produce", topic, stdin=b"").err == "0 records produced\n"


def test_options(command: Command, topic: str) -> None:
    """Values, key, headers and partition from the command line; tombstones by --null."""
    place = ("-p", "0", "-k", "k")
    command.ok("produce", topic, *place, "-v", "one", "-v", "two", "-H", "a=1", "-H", "a=x=y")
    command.ok("produce", topic, *place, "--null")
    assert read(command.bootstrap, topic, 3) == [
        (0, b"k", b"one", [("a", b"1"), ("a", b"x=y")]),
        (0, b"k", b"two", [("a", b"1"), ("a", b"x=y")]),
        (0, b"k", None, None),
    ]


def test_keys_in_lines(command: Command, topic: str, tmp_path: Path) -> None:
    """A separator divides key and value, once; with --null a line is the key of a tombstone."""
    file = tmp_path / "lines"
    file.write_bytes(b"k1=v1\nk1=v=2\n=empty\n")
    command.ok("produce", topic, "-p", "0", "--key-separator", "=", "-f", str(file))
    command.ok("produce", topic, "-p", "0", "--null", stdin=b"k1\n")
    found = [(key, value) for _, key, value, _ in read(command.bootstrap, topic, 4)]
    assert found == [(b"k1", b"v1"), (b"k1", b"v=2"), (b"", b"empty"), (b"k1", None)]


def test_wrong_line(command: Command, topic: str) -> None:
    """A wrong line ends it with its number and exit code 2; what stands before it is there."""
    answer = command.run("produce", topic, "--key-separator", ":", "-p", "0", stdin=b"a:1\nb:2\nwrong\nc:3\n")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "2 records produced to partition 0",
        "holdfast: line 3: there is no ':' between key and value",
    ]
    assert [key for _, key, _, _ in read(command.bootstrap, topic, 2)] == [b"a", b"b"]


def test_json(command: Command, topic: str) -> None:
    """Objects give key, value, headers, partition and time; the answer says where they lie."""
    lines = [
        {"key": "k", "value": "v", "headers": {"h": "1"}, "partition": 1, "timestamp": 1_700_000_000_000},
        {"value": {"base64": "AP8="}, "partition": 1, "headers": [["h", None], ["h", "2"]]},
        {"key": "k", "partition": 0},
    ]
    answer = command.ok("produce", topic, "--json", stdin="\n".join(map(json.dumps, lines)).encode())
    assert answer.json == {
        "topic": topic,
        "records": 3,
        "partitions": {
            "0": {"count": 1, "first": 0, "last": 0},
            "1": {"count": 2, "first": 0, "last": 1},
        },
    }
    assert read(command.bootstrap, topic, 3) == [
        (0, b"k", None, None),
        (1, b"k", b"v", [("h", b"1")]),
        (1, None, b"\x00\xff", [("h", None), ("h", b"2")]),
    ]
    with reader(command.bootstrap, topic) as consumer:
        times = {each.timestamp()[1] for each in consumer.consume(3, timeout=SECONDS_MAX)}
    assert 1_700_000_000_000 in times


def test_copy(command: Command, cluster: Cluster, topic: str) -> None:
    """What consume prints as JSON, produce takes: every byte, header and time arrives in the copy."""
    create_topic(cluster, f"{topic}-copy", partitions=2)
    lines = [
        {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode(), "partition": where}
        for where, key, value in [(0, b"\xff\x00", bytes(range(256))), (1, "é\n".encode(), b"\x1b[31m")]
    ]
    command.ok("produce", topic, "--json", "--base64", stdin="\n".join(map(json.dumps, lines)).encode())
    for options in ((), ("--base64",)):
        original = command.ok("consume", topic, "--json", *options)
        command.ok("produce", f"{topic}-copy", "--json", *options, stdin=original.out)
        copy = command.ok("consume", f"{topic}-copy", "--json", "--from", "-1", *options)
        assert [without(line, "topic", "offset") for line in copy.lines] == [
            without(line, "topic", "offset") for line in original.lines
        ]


def without(fields: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in names}


def test_keys_go_where_other_clients_put_them(command: Command, topic: str) -> None:
    """A key's partition is the one that librdkafka's murmur2 partitioner chooses, as the Java client does."""
    keys = [f"key-{number}" for number in range(50)]
    command.ok("produce", topic, "--key-separator", ":", stdin="".join(f"{key}:v\n" for key in keys).encode())
    ours = {key: partition for partition, key, _, _ in read(command.bootstrap, topic, 50)}
    theirs: dict[bytes, int] = {}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": command.bootstrap, "partitioner": "murmur2_random"}
    )
    for key in keys:
        producer.produce(
            topic, key=key, on_delivery=lambda error, sent: theirs.update({sent.key(): sent.partition()})
        )
    assert producer.flush(SECONDS_MAX) == 0
    assert ours == theirs


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs(command: Command, topic: str, codec: str) -> None:
    """Each codec is written so that librdkafka reads it, and read back here."""
    values = [b"x" * 1000, b"y"]
    command.ok("produce", topic, "-p", "0", "-z", codec, stdin=b"\n".join(values))
    assert [value for _, _, value, _ in read(command.bootstrap, topic, 2)] == values
    assert command.ok("consume", topic, "--raw").out.split() == values


@pytest.mark.parametrize("acks", ["0", "1"])
def test_acks(command: Command, topic: str, acks: str) -> None:
    """Weaker promises are taken too."""
    command.ok("produce", topic, "--acks", acks, "-p", "0", "-v", "a", "-v", "b")
    assert [value for _, _, value, _ in read(command.bootstrap, topic, 2)] == [b"a", b"b"]


def test_batches_over_the_limit_are_cut(command: Command, cluster: Cluster) -> None:
    """Small records arrive though together they are over max.message.bytes; one alone over it is refused."""
    create_topic(cluster, "tight", partitions=1, configs={"max.message.bytes": "2000"})
    lines = [b"%03d" % number + b"x" * 100 for number in range(200)]
    command.ok("produce", "tight", stdin=b"\n".join(lines))
    assert command.ok("consume", "tight", "--raw").out.splitlines() == lines
    answer = command.run("produce", "tight", stdin=b"y" * 3000)
    assert answer.code == 1
    assert "MESSAGE_SIZE_TOO_LARGE" in answer.err.splitlines()[-1]


def test_slow_writer(command: Command, topic: str) -> None:
    """A line is sent when it is written, not when the input ends."""
    with command.start("produce", topic, "-p", "0") as process:
        assert process.stdin is not None
        for line in (b"first\n", b"second\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answer = command.ok(
                "consume", topic, "--raw", "-n", "1", "--from", "0" if b"f" in line else "1", "-p", "0"
            )
            assert answer.out == line
        _, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, err) == (0, b"2 records produced to partition 0\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("no-such-topic", "-v", "x"), 1, "`holdfast topic list`"),
        (("TOPIC", "-p", "2", "-v", "x"), 1, "has no partition 2: it has 0 to 1"),
        (("TOPIC", "--json", "-k", "k"), 2, "the objects say"),
        (("TOPIC", "--null", "-v", "x"), 2, "--null sends tombstones"),
        (("TOPIC", "--base64"), 2, "add --json"),
        (("TOPIC", "-H", "x", "-v", "y"), 2, "NAME=VALUE"),
        (("TOPIC", "--key-separator", "", "-v", "y"), 2, "--key-separator"),
    ],
)
def test_refusals(command: Command, topic: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    """What cannot be done is one line that says why, and the right exit code."""
    named = [topic if word == "TOPIC" else word for word in arguments]
    assert said in command.refused("produce", *named, code=code)
