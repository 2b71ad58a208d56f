"""`holdfast doctor` on Holdfast itself: it reads every replica, finds nothing, and says what it could not look at."""

import json
import signal
import time
from pathlib import Path

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.records.record import Record
from tests.cli.commands import Command
from tests.process import HoldfastProcess


def test_holdfast_is_clean(tmp_path: Path) -> None:
    """Deletes, an abort, a commit and an open transaction on three stores: all replicas are compared, none differs."""
    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process, Cluster(process.bootstrap) as cluster:
        create_topic(cluster, "table", partitions=2, configs={"cleanup.policy": "compact"})
        create_topic(cluster, "events", partitions=1)
        plain = Producer(cluster, "table")
        plain.send(
            {0: [Record(key=b"k", value=b"v"), Record(key=b"k", value=None), Record(key=b"l", value=b"w")]}
        )
        producer = TransactionalProducer(cluster, "p")
        producer.init()
        for end in (producer.abort, producer.commit):
            producer.begin()
            producer.send("table", 1, [Record(key=b"t", value=b"1")])
            end()
        producer.begin()
        producer.send("table", 1, [Record(key=b"t", value=b"2")])
        command = Command(process.bootstrap)
        answer = command.run("doctor", "--json")
        examined = {(each["topic"], each["partition"]): each["replicas"] for each in answer.json["examined"]}
        assert (answer.code, answer.json["findings"], answer.json["not_examined"]) == (0, [], [])
        assert examined == {("table", 0): [1, 2, 3], ("table", 1): [1, 2, 3]}
        answer = command.run("doctor", "--topic", "tab*", "--rate", "100")
        assert (answer.code, answer.err) == (0, "")
        assert answer.text == "2 partitions compared, 0 differences: all replicas show the same\n"
        answer = command.run("doctor", "--topic", "none*")
        assert (answer.code, answer.out) == (2, b"")
        assert answer.err.startswith("holdfast: no topic matches 'none*'")


def test_nobody_to_examine() -> None:
    """One line and exit code 3: it says nothing about the replicas."""
    answer = Command("127.0.0.1:1").run("doctor")
    assert (answer.code, answer.out) == (3, b"")
    assert answer.err.count("\n") == 1
    assert "cannot connect to 127.0.0.1:1" in answer.err


def test_watching(tmp_path: Path) -> None:
    """A line for each change and none in between; the page is made anew; ^C ends it with the code of the last look."""
    page = tmp_path / "report.html"
    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process, Cluster(process.bootstrap) as cluster:
        create_topic(cluster, "table", partitions=1, configs={"cleanup.policy": "compact"})
        command = Command(process.bootstrap)
        arguments = ("--topic", "table", "--watch", "0.05", "--json", "--html", str(page))
        with command.start("doctor", *arguments) as watching:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            assert (first["clean"], len(first["examined"])) == (True, 1)
            made = page.stat().st_mtime_ns
            while page.stat().st_mtime_ns == made:
                time.sleep(0.05)
            assert "All replicas show the same" in page.read_text()
            process.kill()
            # The look that was under way may have had an answer from one replica and none from the next.
            while "cannot connect" not in json.loads(watching.stdout.readline()).get("failure", ""):
                pass
            watching.send_signal(signal.SIGINT)
            rest, _ = watching.communicate(timeout=60)
        assert (watching.returncode, rest) == (3, b"")
        assert "Not everything could be examined" in page.read_text()
