"""The lab's own processes: brokers of an interrupted run are gone, and Kafka's Java client writes what it is told.

What runs show is in test_doctor.py.
"""

import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import Isolation
from holdfast.client.replica_log import read_replica
from holdfast.client.topics import create_topic
from holdfast.client.transactions import generation_of
from holdfast.errors import KafkaRefusal
from holdfast.lab.engines.kafka_writers import TOPIC, open_writers
from holdfast.lab.kafka_broker import START_SECONDS_MAX, KafkaCluster
from holdfast.records.build import read_records
from holdfast.rules.transaction import Outcome

RUN_SECONDS_MAX = 400


def lab(version: str, *words: str) -> list[str]:
    """The command line of a run."""
    program = [sys.executable, "-W", "ignore", "-m", "holdfast", "lab", "run", *words]
    return [*program, "--engine", "kafka", "--kafka-version", version]


def children(pid: int, program: str) -> list[int]:
    """The processes of a program that a process has started and that still run."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words if program in Path(f"/proc/{word}/cmdline").read_text()]


@pytest.mark.timeout(RUN_SECONDS_MAX)
@pytest.mark.parametrize("program", ["kafka.tools.StorageTool", "kafka.Kafka"])
def test_a_run_that_is_interrupted_leaves_no_broker(program: str, pytestconfig: pytest.Config) -> None:
    """^C as soon as the last process of a kind was started: exit code 130, and every one is gone."""
    version = pytestconfig.getoption("kafka")
    with subprocess.Popen(lab(version, "tombstone"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + START_SECONDS_MAX
        started: list[int] = []
        while len(started) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            with suppress(FileNotFoundError):  # one that has just ended
                started = children(run.pid, program)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=START_SECONDS_MAX)
    assert (run.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    for pid in started:
        with suppress(FileNotFoundError):
            # Nobody may have waited for it yet, but it runs no more.
            assert Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_kafkas_java_client_writes_what_it_is_told(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    """Plain records and both outcomes, with their offsets; what brokers refuse is told, and its process ends."""
    with Cluster(kafka_cluster.bootstrap) as cluster:
        create_topic(cluster, TOPIC, partitions=1, configs={"max.message.bytes": "2000"})
        generation = generation_of(cluster).level
        with closing(open_writers("java", cluster, jars=kafka_cluster.jars, directory=tmp_path)) as writers:
            assert writers.generation == generation
            assert (writers.produce("k", "ä"), writers.produce("k", None)) == (0, 1)
            for offset, outcome in ((2, Outcome.COMMITTED), (4, Outcome.ABORTED)):
                writers.begin("p", generation)
                assert writers.send("p", "t", outcome.name) == offset
                writers.end("p", outcome)
            with pytest.raises(KafkaRefusal, match=r"Kafka's Java client: .*RecordTooLarge"):
                writers.produce("k", "v" * 3000)
            assert writers.produce("k", "last") == 6
        place = TopicPartition(TOPIC, 0)
        chunks = read_replica(cluster, 1, place, 0, isolation=Isolation.READ_COMMITTED)
        batches = [batch for chunk in chunks for batch in without_aborted(chunk.batches, chunk.aborted)]
        records = [record for batch in batches if not batch.is_control for record in read_records(batch)]
    assert [(record.key, record.value) for record in records] == [
        (b"k", "ä".encode()),
        (b"k", None),
        (b"t", b"COMMITTED"),
        (b"k", b"last"),
    ]
