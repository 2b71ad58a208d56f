"""Status and metrics of a real process, and how it is found."""

import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.consumer import Consumer
from holdfast.client.offsets import Isolation
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.records.record import Record
from tests.process import HoldfastProcess

SECONDS_MAX = 30.0
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})? (\S+)')


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """A process in which two records were produced in two batches, and read."""
    with HoldfastProcess(tmp_path_factory.mktemp("admin") / "data", "--log-format", "json") as process:
        with Cluster(process.bootstrap) as cluster:
            create_topic(cluster, "t", partitions=3)
            producer = Producer(cluster, "t")
            for value in (b"a", b"b"):
                producer.send({1: [Record(value=value, timestamp_ms=1)]})
            reader = Consumer(cluster, "t", {1: 0}, isolation=Isolation.READ_COMMITTED)
            assert len(list(reader.poll(1000))) == 2
        yield process
        assert process.stop() == 0
        assert not (process.data / "admin.json").exists(), "the file goes with the service"


def address(process: HoldfastProcess) -> str:
    found = json.loads((process.data / "admin.json").read_text())
    assert found["pid"] == process.pid
    return str(found["address"])


def get(process: HoldfastProcess, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(address(process), timeout=SECONDS_MAX)
    connection.request("GET", path)
    return connection.getresponse()


def status(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `holdfast status`."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "status", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def metrics(process: HoldfastProcess) -> dict[str, float]:
    """Every sample of a scrape by name and labels."""
    page = get(process, "/metrics").read().decode()
    found = {}
    for line in page.splitlines():
        if not line.startswith("# "):
            match = SAMPLE.fullmatch(line)
            assert match, line
            found[match[1] + (match[2] or "")] = float(match[3])
    return found


def test_status(process: HoldfastProcess) -> None:
    """What was written is told exactly, by file and by address, as JSON and as a table."""
    by_data = status("--data", str(process.data), "--json")
    assert by_data.returncode == 0
    found = json.loads(by_data.stdout)
    identity = json.loads((process.data / "holdfast.json").read_text())
    told = {
        "cluster_id": identity["cluster_id"],
        "pid": process.pid,
        "data": str(process.data.resolve()),
        "nodes": [{"id": 1, "address": process.bootstrap, "in_sync": True}],
        "keeper": {"rewrites": 0, "refused": 0, "last_round_seconds_ago": None},
        "topics": 1,
        "partitions": 3,
        "log_start_sum": 0,
        "log_end_sum": 2,
        "commit_queue": {"writes": 0, "bytes": 0},
        "connections": 0,
    }
    assert {name: found[name] for name in told} == told
    assert found["last_frame"] >= 3
    (store,) = found["stores"]
    assert (store["store"], store["phase"], store["incarnation"]) == (1, "in sync", 1)
    assert 0 < found["uptime_seconds"] < 600
    assert 10 << 20 < found["resident_memory_bytes"] < 1 << 30
    by_address = status("--admin", address(process))
    assert by_address.returncode == 0
    assert "1 with 3 partitions" in by_address.stdout
    assert "1 of 1 in sync" in by_address.stdout
    assert "nothing was due yet" in by_address.stdout


def test_metrics(process: HoldfastProcess) -> None:
    """Counts are those of what was done, and a scrape is what Prometheus expects."""
    response = get(process, "/metrics")
    assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    found = metrics(process)
    assert found["holdfast_produce_requests_total"] == 2
    assert found['holdfast_requests_total{api="Produce"}'] == 2
    assert found['holdfast_requests_total{api="CreateTopics"}'] == 1
    assert found["holdfast_produce_bytes_total"] > 2 * 61, "two batches with their headers"
    assert found["holdfast_fetch_requests_total"] >= 1
    assert found["holdfast_fetch_bytes_total"] > 2 * 61
    assert found["holdfast_connections"] == 0
    assert found["holdfast_connections_accepted_total"] >= 1
    assert found["holdfast_commit_seconds_count"] >= 4, "a topic, an id and two batches"
    assert found["holdfast_commit_seconds_sum"] > 0
    assert found['holdfast_commit_seconds_bucket{le="+Inf"}'] == found["holdfast_commit_seconds_count"]
    assert found["holdfast_commit_failures_total"] == 0
    assert (found["holdfast_topics"], found["holdfast_partitions"]) == (1, 3)
    assert (found["holdfast_nodes"], found["holdfast_nodes_in_sync"]) == (1, 1)
    assert found["process_resident_memory_bytes"] > 10 << 20


def test_refused_connections_are_counted(process: HoldfastProcess) -> None:
    """What a client did wrong is counted, and logged as one JSON object."""
    before = metrics(process)["holdfast_connections_refused_total"]
    with socket.create_connection(("127.0.0.1", process.port), timeout=SECONDS_MAX) as client:
        client.sendall(b"\xff\xff\xff\xff")
        assert client.recv(1) == b""
    assert metrics(process)["holdfast_connections_refused_total"] == before + 1
    entry = json.loads(process.log.splitlines()[-1])
    assert entry["level"] == "warning"
    assert entry["logger"] == "holdfast.agent.connection"
    assert "a request of -1 bytes" in entry["message"]


def test_every_metric_is_documented(process: HoldfastProcess) -> None:
    """docs/metrics.md lists what a scrape shows, word for word, and nothing else."""
    page = get(process, "/metrics").read().decode().splitlines()
    about = dict(line.removeprefix("# HELP ").split(" ", 1) for line in page if line.startswith("# HELP "))
    kinds = dict(line.removeprefix("# TYPE ").split(" ", 1) for line in page if line.startswith("# TYPE "))
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    assert rows == [f"| `{name}` | {kinds[name]} | {text} |" for name, text in about.items()]


def test_kill(tmp_path: Path) -> None:
    """After kill -9 the file is stale: status says that nobody answers, and the next start replaces it."""
    process = HoldfastProcess(tmp_path / "data")
    with process:
        process.kill()
        stale = (process.data / "admin.json").read_text()
        answer = status("--data", str(process.data))
        assert answer.returncode == 1
        assert "is Holdfast running?" in answer.stderr
        process.start()
        assert (process.data / "admin.json").read_text() != stale
        assert status("--data", str(process.data)).returncode == 0


def test_nobody_there(tmp_path: Path) -> None:
    """Without a process there is one line that says how to start it; what is no service is said to be none."""
    answer = status("--data", str(tmp_path))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"holdfast up --data {tmp_path}" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert status("--admin", "nonsense").returncode == 2


def test_port_in_use(tmp_path: Path) -> None:
    """An admin port that is taken stops the start with one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["up", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--admin", place]
        answer = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert answer.returncode == 2
    assert answer.stderr == f"holdfast: the admin service cannot listen on {place}: Address already in use\n"
