"""`holdfast recon drill` against a real process, a real log and a real watcher, with thresholds of seconds."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.recon import recon
from holdfast.client.admin import get_json
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.handing import hand_on
from holdfast.client.topics import create_topic
from holdfast.errors import HoldfastError
from holdfast.pipelines.config import EndState, Pipeline
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import ADAPTER
from tests.pipelines.files import make_pipeline
from tests.pipelines.watch.watcher import watching

ROOT = Path(__file__).parents[3]
WAIT_S_MAX = 60.0
POLL_S = 0.05


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def pipeline(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """One with an adapter that runs; whoever forwards at the end is asked to leave."""
    made = make_pipeline(
        tmp_path_factory.mktemp("drill"), mode="adapter", prefix="drill", bootstrap=cluster.bootstrap
    )
    text = made.path.read_text().replace("interval: 1s", "interval: 100ms")
    made.path.write_text(text.replace("stall: 60s", "stall: 3s\n  canary: 2s"))
    for topic in (made.ingest, made.topics[EndState.QUALIFIED], made.audit):
        create_topic(cluster, topic, partitions=1)
    commit_group_offsets(cluster, made.service_group, {TopicPartition(made.ingest, 0): 0})
    command = [sys.executable, "-m", "tests.pipelines.watch.forwarder", str(made.path), "--only", "adapter"]
    with hand_on(made.endpoint.security) as handed:
        process = subprocess.Popen([*command, *handed.words], cwd=ROOT, pass_fds=handed.descriptors)
    files = PartFiles(made.checkpoint, ADAPTER)
    try:
        wait_until(lambda: files.read() is not None, "the adapter has not begun")
        yield made
    finally:
        process.send_signal(signal.SIGCONT)
        files.ask_to_stop()
        process.wait(WAIT_S_MAX)
        wait_until(lambda: not files.is_running(), "the adapter has not left")


@pytest.fixture(scope="module")
def watcher(pipeline: Pipeline) -> Iterator[str]:
    """Its address."""
    with watching(pipeline.path, "--interval", "200ms") as address:
        yield address


def drill(file: Path, watcher: str, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "holdfast", "recon", "drill", *words]
    command += ["--pipeline", str(file), "--listen", watcher]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def alarms(watcher: str) -> list[object]:
    found: list[object] = get_json(watcher, "/alarms")["alarms"]
    return found


def state_of(pid: int) -> str:
    """T for a process that is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@pytest.mark.parametrize(("fault", "alarm"), [("stall", "stalled"), ("crash", "stalled"), ("lost", "canary")])
def test_a_fault_is_seen_over_http_undone_and_over(
    pipeline: Pipeline, watcher: str, fault: str, alarm: str
) -> None:
    before = PartFiles(pipeline.checkpoint, ADAPTER).read()
    wait_until(lambda: not alarms(watcher), "an earlier alarm is not over")
    told, errors = drill(pipeline.path, watcher, fault, "--yes", "--json", "--wait", "60s").communicate(
        timeout=180
    )
    assert told, errors
    report = json.loads(told)
    assert (report["fault"], report["alarm"]) == (fault, alarm)
    assert report["alarm_s"] > 0
    assert report["repair_s"] is not None
    now = PartFiles(pipeline.checkpoint, ADAPTER).read()
    assert before is not None
    assert now is not None
    assert (now.pid == before.pid) == (fault != "crash")


def test_an_interrupted_drill_leaves_nothing_broken(pipeline: Pipeline, watcher: str) -> None:
    state = PartFiles(pipeline.checkpoint, ADAPTER).read()
    assert state is not None
    wait_until(lambda: not alarms(watcher), "an earlier alarm is not over")
    process = drill(pipeline.path, watcher, "stall", "--yes")
    wait_until(lambda: state_of(state.pid) == "T", "nothing was frozen")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode != 0
    assert state_of(state.pid) != "T"


def test_nothing_is_broken_unless_it_is_meant_and_seen(pipeline: Pipeline, watcher: str) -> None:
    other = pipeline.path.with_name("other.yaml")
    other.write_text(pipeline.path.read_text().replace(f"pipeline: {pipeline.name}", "pipeline: another"))
    for words, said in (
        (["--listen", watcher, "--pipeline", str(pipeline.path)], "--yes"),
        (["--listen", "127.0.0.1:1", "--pipeline", str(pipeline.path), "--yes"], "no watcher answers"),
        (["--listen", watcher, "--pipeline", str(other), "--yes"], "not 'another'"),
        (["--listen", watcher, "--pipeline", "nowhere.yaml", "--yes"], "nowhere.yaml"),
    ):
        refused = CliRunner().invoke(recon, ["drill", "stall", *words])
        assert isinstance(refused.exception, HoldfastError)
        assert said in str(refused.exception)
    words = ["--listen", watcher, "--pipeline", str(pipeline.path), "--yes"]
    refused = CliRunner().invoke(recon, ["drill", "dup", *words])
    assert "--fingerprints" in str(refused.exception), "nobody would ever tell"
    state = PartFiles(pipeline.checkpoint, ADAPTER).read()
    assert state is not None
    assert state_of(state.pid) != "T"
