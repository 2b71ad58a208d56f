"""`holdfast txn` against a real cluster."""

import time
from collections.abc import Iterator

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.hanging import abort_in_partition, find_hanging, find_open_write
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.topics import create_topic
from holdfast.client.transactional_ids import (
    abort_transaction,
    describe_transactional_id,
    list_transactional_ids,
)
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, TV2, Generation
from holdfast.errors import InvalidTxnState, ProducerFenced
from holdfast.records.record import Record
from tests.cli.commands import SECONDS_MAX, Answer, Command
from tests.cli.test_completion import completed
from tests.process import HoldfastProcess

TIMEOUT_MS = 45_000


def begun(
    cluster: Cluster,
    topic: str,
    *partitions: int,
    name: str | None = None,
    generation: Generation | None = None,
) -> TransactionalProducer:
    """A producer whose transaction has two records in each of some partitions."""
    producer = TransactionalProducer(cluster, name or topic, timeout_ms=TIMEOUT_MS, generation=generation)
    producer.init()
    producer.begin()
    for partition in partitions:
        producer.send(topic, partition, [Record(value=b"a"), Record(value=b"b")])
    return producer


@pytest.fixture
def opened(cluster: Cluster, topic: str) -> Iterator[TransactionalProducer]:
    """A transaction under way in both partitions of the topic; its id is the topic's name."""
    producer = begun(cluster, topic, 0, 1)
    yield producer
    if describe_transactional_id(cluster, topic).is_open:
        producer.abort()


def stable(cluster: Cluster, topic: str) -> dict[int, int]:
    return list_offsets(cluster, topic, dict.fromkeys(range(2), LATEST), isolation=Isolation.READ_COMMITTED)


def test_list(command: Command, topic: str, opened: TransactionalProducer) -> None:
    """An open transaction is listed with its age; every filter takes in and leaves out what it should."""
    (row,) = command.ok("txn", "list", "--pattern", topic, "--json").json
    assert row == {
        "transactional_id": topic,
        "state": "Ongoing",
        "producer_id": opened.identity.producer_id,
        "coordinator": 1,
        "age_ms": row["age_ms"],
    }
    assert 0 <= row["age_ms"] < TIMEOUT_MS
    shown = [line.split() for line in command.ok("txn", "list").text.splitlines()]
    assert shown[0][:3] == ["TRANSACTIONAL", "ID", "STATE"]
    assert [topic, "Ongoing", str(opened.identity.producer_id), "1"] in [line[:4] for line in shown]
    every = ["--state", "ongoing", "--longer-than", "0ms", "--pattern", f"{topic[:-1]}."]
    assert [each["transactional_id"] for each in command.ok("txn", "list", *every, "--json").json] == [topic]
    for options in (["--state", "Empty"], ["--longer-than", "1h"], ["--pattern", topic[:-1]]):
        found = command.ok("txn", "list", *options, "--json").json
        assert topic not in [each["transactional_id"] for each in found]
    opened.commit()
    (row,) = command.ok("txn", "list", "--pattern", topic, "--json").json
    assert (row["state"], row["age_ms"]) == ("CompleteCommit", None)
    found = command.ok("txn", "list", "--longer-than", "0ms", "--json").json
    assert topic not in [each["transactional_id"] for each in found], "what has ended is not open for long"


def test_describe(command: Command, topic: str, opened: TransactionalProducer) -> None:
    """All that is known of a transaction; once it has ended, neither start nor age."""
    before_ms = time.time_ns() // 1_000_000
    found = command.ok("txn", "describe", topic, "--json").json
    assert found == {
        "transactional_id": topic,
        "state": "Ongoing",
        "producer_id": opened.identity.producer_id,
        "producer_epoch": opened.identity.producer_epoch,
        "timeout_ms": TIMEOUT_MS,
        "started_ms": found["started_ms"],
        "age_ms": found["age_ms"],
        "partitions": [[topic, 0], [topic, 1]],
    }
    assert before_ms - TIMEOUT_MS < found["started_ms"] <= before_ms
    assert found["age_ms"] >= before_ms - found["started_ms"]
    shown = command.ok("txn", "describe", topic).text
    assert [topic, "1"] in [line.split() for line in shown.splitlines()]
    assert "0:00:45" in shown
    opened.commit()
    found = command.ok("txn", "describe", topic, "--json").json
    assert (found["state"], found["started_ms"], found["age_ms"]) == ("CompleteCommit", None, None)
    assert found["partitions"] == []


def test_hanging(command: Command, cluster: Cluster, topic: str, opened: TransactionalProducer) -> None:
    """Exit code 1 with what is held back where, 0 with nothing if all are younger."""
    answer = command.run("txn", "hanging", "--longer-than", "0ms", "--json")
    assert answer.code == 1
    (found,) = [each for each in answer.json if each["transactional_id"] == topic]
    assert found == {
        "transactional_id": topic,
        "producer_id": opened.identity.producer_id,
        "producer_epoch": opened.identity.producer_epoch,
        "age_ms": found["age_ms"],
        "timeout_ms": TIMEOUT_MS,
        "partitions": [
            {"topic": topic, "partition": partition, "start": 0, "held": 2} for partition in range(2)
        ],
    }
    shown = command.run("txn", "hanging", "--longer-than", "0ms")
    assert shown.code == 1
    lines = [line.split() for line in shown.text.splitlines() if line.startswith(topic)]
    assert [line[-4:] for line in lines] == [[topic, "0", "0", "2"], [topic, "1", "0", "2"]]
    for options in ([], ["--longer-than", "1h"]):
        answer = command.run("txn", "hanging", "--json", *options)
        assert (answer.code, answer.json) == (0, [])


def test_abort(command: Command, cluster: Cluster, topic: str, opened: TransactionalProducer) -> None:
    """The whole transaction goes, readers get past it, and its producer is fenced."""
    assert stable(cluster, topic) == {0: 0, 1: 0}
    refused = command.run("txn", "abort", topic, stdin=b"n\n")
    assert (refused.code, stable(cluster, topic)) == (130, {0: 0, 1: 0})
    aborted = command.ok("txn", "abort", topic, "--yes", "--json").json
    assert aborted == {
        "transactional_id": topic,
        "producer_id": opened.identity.producer_id,
        "producer_epoch": opened.identity.producer_epoch,
        "partitions": [[topic, 0], [topic, 1]],
    }
    assert stable(cluster, topic) == {0: 2, 1: 2}
    with pytest.raises(ProducerFenced):
        opened.commit()
    found = describe_transactional_id(cluster, topic)
    assert (found.is_open, found.timeout_ms) == (False, TIMEOUT_MS), "the id keeps its timeout"
    assert "no open transaction" in command.refused("txn", "abort", topic, "-y")


def test_abort_by_partition(
    command: Command, cluster: Cluster, topic: str, opened: TransactionalProducer
) -> None:
    """Named by a partition and its producer, a transaction that has a coordinator is aborted as a whole."""
    producer_id = str(opened.identity.producer_id)
    shown = command.ok("txn", "abort", f"{topic}:1", "--producer", producer_id, "-y").text
    assert shown == f"the transaction of {topic} is aborted, in 2 partitions\n"
    assert stable(cluster, topic) == {0: 2, 1: 2}
    said = command.refused("txn", "abort", f"{topic}:1", "--producer", producer_id, "-y")
    assert said == f"producer {producer_id} has no open transaction in {topic}:1"


def test_the_doctor_aborts_what_hangs(
    command: Command, cluster: Cluster, topic: str, opened: TransactionalProducer
) -> None:
    """`doctor repair` of a finding that names a producer: it tells what it will do, asks, and aborts the same."""
    finding = f"{topic}:1:producer={opened.identity.producer_id}"
    steps = [
        f"abort the transaction of {topic} in {topic}:0, {topic}:1, and fence its producer",
        f"wait until nothing of it is open in {topic}:1",
    ]
    assert command.ok("doctor", "repair", finding, "--dry-run").text.splitlines() == steps
    refused = command.run("doctor", "repair", finding, stdin=b"n\n")
    assert (refused.code, refused.err.splitlines()[:2]) == (130, steps)
    assert stable(cluster, topic) == {0: 0, 1: 0}
    (report,) = command.ok("doctor", "repair", finding, "--yes", "--json").json
    assert (report["producer_id"], report["done"]) == (opened.identity.producer_id, True)
    assert (report["steps"], report["findings_left"]) == (steps, [])
    assert stable(cluster, topic) == {0: 2, 1: 2}
    with pytest.raises(ProducerFenced):
        opened.commit()
    said = command.refused("doctor", "repair", finding, "--yes")
    assert said.startswith(
        f"the leader of {topic}:1 has nothing of producer {opened.identity.producer_id} open"
    )
    said = command.refused("doctor", "repair", f"{topic}:1:producer=", code=2)
    assert "names nothing to repair" in said


def test_abort_before_the_first_record(command: Command, cluster: Cluster, topic: str) -> None:
    """A transaction that holds a group's offsets only is aborted as well."""
    producer = begun(cluster, topic)
    producer.send_offsets(topic, {TopicPartition(topic, 0): 1})
    assert command.ok("txn", "abort", topic, "-y").text.endswith("in 0 partitions\n")
    with pytest.raises(ProducerFenced):
        producer.commit()


def test_marker(cluster: Cluster, topic: str, opened: TransactionalProducer) -> None:
    """What other tools send, a marker for one partition, ends all of it here."""
    found = find_open_write(cluster, TopicPartition(topic, 1), opened.identity.producer_id)
    assert found is not None
    assert (found.start, found.producer_epoch) == (0, opened.identity.producer_epoch)
    abort_in_partition(cluster, found)
    assert stable(cluster, topic) == {0: 2, 1: 2}
    with pytest.raises(InvalidTxnState, match="no open transaction"):
        abort_in_partition(cluster, found)
    successor = begun(cluster, topic, 1)
    with pytest.raises(InvalidTxnState, match="has changed since"):
        abort_in_partition(cluster, found)
    successor.commit()
    assert stable(cluster, topic) == {0: 2, 1: 4}


class Hesitating:
    """Somebody who has been asked whether to abort, and has not answered yet."""

    def __init__(self, command: Command, *arguments: str) -> None:
        self._process = command.start("txn", "abort", *arguments)
        assert self._process.stderr is not None
        asked = b""
        while b"?" not in asked:
            more = self._process.stderr.read(1)
            assert more, asked
            asked += more

    def say_yes(self) -> Answer:
        """The end of the command."""
        with self._process as process:
            out, err = process.communicate(b"y\n", SECONDS_MAX)
        return Answer(code=process.returncode, out=out, err=err.decode())


@pytest.mark.parametrize("generation", [TV1, TV2])
@pytest.mark.parametrize("by_partition", [False, True])
def test_abort_what_was_confirmed_and_nothing_else(
    command: Command, cluster: Cluster, topic: str, generation: Generation, by_partition: bool
) -> None:
    """While somebody thinks, the producer ends its transaction and begins the next one, which goes on unharmed."""
    producer = begun(cluster, topic, 0, generation=generation)
    owner = str(producer.identity.producer_id)
    named = [f"{topic}:0", "--producer", owner] if by_partition else [topic]
    hesitating = Hesitating(command, *named)
    producer.commit()
    producer.begin()
    producer.send(topic, 0, [Record(value=b"c")])
    answer = hesitating.say_yes()
    assert (answer.code, answer.out) == (1, b"")
    assert "has changed since it was looked at" in answer.err
    assert "nothing was aborted" in answer.err
    producer.send(topic, 1, [Record(value=b"d")])
    producer.commit()
    assert stable(cluster, topic) == {0: 3, 1: 1}


def test_abort_after_the_end(command: Command, cluster: Cluster, topic: str) -> None:
    """What has ended meanwhile is not aborted, and neither is a successor's; what has only grown is."""
    producer = begun(cluster, topic, 0)
    hesitating = Hesitating(command, topic)
    producer.commit()
    answer = hesitating.say_yes()
    assert (answer.code, "no open transaction: it is CompleteCommit" in answer.err) == (1, True)
    producer.begin()
    producer.send(topic, 0, [Record(value=b"c")])
    hesitating = Hesitating(command, topic)
    successor = begun(cluster, topic, 1)
    answer = hesitating.say_yes()
    assert (answer.code, "has changed since it was looked at" in answer.err) == (1, True)
    hesitating = Hesitating(command, topic)
    successor.send(topic, 0, [Record(value=b"d")])
    answer = hesitating.say_yes()
    assert (answer.code, answer.text) == (0, f"the transaction of {topic} is aborted, in 2 partitions\n")
    with pytest.raises(ProducerFenced):
        successor.commit()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("describe", "no-such-id"), 1, "`holdfast txn list`"),
        (("abort", "no-such-id", "-y"), 1, "`holdfast txn list`"),
        (("abort", "TOPIC", "--producer", "7", "-y"), 2, "such as orders:0"),
        (("abort", "TOPIC:x", "--producer", "7", "-y"), 2, "such as orders:0"),
        (("abort", "TOPIC:7", "--producer", "7", "-y"), 1, "has no partition 7"),
        (("abort", "no-such-topic:0", "--producer", "7", "-y"), 1, "`holdfast topic list`"),
        (("abort", "TOPIC:0", "--producer", "7", "-y"), 1, "no open transaction in"),
        (("list", "--pattern", "("), 2, "not a regular expression"),
        (("list", "--longer-than", "soon"), 2, "500ms, 90s, 15m, 2h or 1d"),
        (("list", "--state", "open"), 2, "'ongoing'"),
    ],
)
def test_refusals(
    command: Command, cluster: Cluster, topic: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """What cannot be done is one line that says why, and the right exit code; nothing is made on the way."""
    named = [word.replace("TOPIC", topic) for word in arguments]
    assert said in command.refused("txn", *named, code=code)
    assert "no-such-id" not in [each.name for each in list_transactional_ids(cluster)]


def test_completion(bootstrap: str, cluster: Cluster, topic: str) -> None:
    """Transactional ids are completed, and topics where a producer is named."""
    TransactionalProducer(cluster, f"{topic}-id").init()
    assert completed(f"holdfast txn describe {topic}", bootstrap) == [f"{topic}-id"]
    assert completed(f"holdfast txn abort {topic}-", bootstrap) == [f"{topic}-id"]
    assert completed(f"holdfast txn abort --producer 7 {topic}", bootstrap) == [topic]


def test_several_nodes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Ids of all coordinators are listed once, and partitions of all leaders looked at."""
    with (
        HoldfastProcess(tmp_path_factory.mktemp("txn") / "data", "--nodes", "3") as process,
        Cluster(process.bootstrap) as cluster,
    ):
        command = Command(process.bootstrap)
        create_topic(cluster, "t", partitions=6)
        names = [f"id-{number}" for number in range(6)]
        for number, name in enumerate(names):
            begun(cluster, "t", number, name=name)
        listed = command.ok("txn", "list", "--json").json
        assert [each["transactional_id"] for each in listed] == names
        assert {each["coordinator"] for each in listed} > {1}, "the ids are spread over the nodes"
        found = command.run("txn", "hanging", "--longer-than", "0ms", "--json").json
        assert [each["transactional_id"] for each in found] == names, "the oldest comes first"
        places = [(each["transactional_id"], each["partitions"][0]["partition"]) for each in found]
        assert places == [(name, number) for number, name in enumerate(names)]
        for name in names:
            abort_transaction(cluster, describe_transactional_id(cluster, name))
        assert find_hanging(cluster, now_ms=time.time_ns(), longer_than_ms=0) == []
        assert process.stop() == 0
        assert "Traceback" not in process.log
