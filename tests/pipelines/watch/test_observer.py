"""Real faults on a real log, seen from outside; only the evaluator's clock is made."""

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from kafka import KafkaAdminClient

from holdfast.cli import watch as cli
from holdfast.cli.endpoint import connect
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.pipelines.config import EndState, Pipeline
from holdfast.pipelines.recon.columns import CANARY_HEADER
from holdfast.pipelines.recon.fetching import fetch_record
from holdfast.pipelines.recon.law import Place
from holdfast.pipelines.state import PartFiles, PartState
from holdfast.pipelines.status import parts_of
from holdfast.pipelines.watch.commands import Commands
from holdfast.pipelines.watch.evaluator import AlarmKind, Evaluator
from holdfast.pipelines.watch.observer import Observer, watched
from holdfast.pipelines.watch.profile import derive
from holdfast.records.build import Record
from tests.pipelines.files import make_pipeline
from tests.pipelines.watch.watcher import watching


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Adapter:
    """A pipeline whose adapter is the test itself."""

    def __init__(self, cluster: Cluster, directory: Path, name: str) -> None:
        self.cluster = cluster
        self.pipeline: Pipeline = make_pipeline(
            directory, mode="adapter", prefix=name, bootstrap=cluster.bootstrap
        )
        self.topic = self.pipeline.topics[EndState.QUALIFIED]
        for topic in (self.pipeline.ingest, self.topic, self.pipeline.audit):
            create_topic(cluster, topic, partitions=1)
        self.group = {each.topic: each.group for each in watched(self.pipeline)}[self.topic]
        self.producer = Producer(cluster, self.topic)
        commit_group_offsets(
            cluster, self.pipeline.service_group, {TopicPartition(self.pipeline.ingest, 0): 0}
        )

    def send(self, count: int, *, tenant: str = "acme") -> None:
        headers = [("tenant", tenant.encode())]
        self.producer.send({0: [Record(value=b"{}", headers=headers, timestamp_ms=now_ms())] * count})

    def commit(self, offset: int) -> None:
        commit_group_offsets(self.cluster, self.group, {TopicPartition(self.topic, 0): offset})

    def forward(self, offset: int) -> None:
        record = fetch_record(self.cluster, Place(topic=self.topic, partition=0, offset=offset))
        Producer(self.cluster, self.pipeline.audit).send({0: [record]})


@pytest.fixture
def adapter(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Adapter:
    name = re.sub(r"\W", "-", request.node.name.removeprefix("test_"))[:40]
    return Adapter(cluster, tmp_path, name)


def evaluator(adapter: Adapter) -> Evaluator:
    pipeline = adapter.pipeline
    return Evaluator(derive(pipeline.trigger, pipeline.alarms, pipeline.budget, pipeline.mode), Commands())


def test_a_position_that_stands_still_is_stalled_where_it_stands(adapter: Adapter) -> None:
    observer, watcher = Observer(adapter.cluster, adapter.pipeline, canaries=False), evaluator(adapter)
    for tenant, count in (("acme", 4), ("globex", 4), ("birch", 2)):
        adapter.send(count, tenant=tenant)
    adapter.commit(4)
    began_ms = now_ms()
    assert watcher.look(observer.look(began_ms)) == []
    [alarm] = watcher.look(observer.look(began_ms + 61_000))
    assert (alarm.kind, alarm.group, alarm.topic) == (AlarmKind.STALLED, adapter.group, adapter.topic)
    assert (alarm.offset, alarm.waiting, alarm.tenants) == (4, 6, ("birch", "globex"))
    adapter.commit(10)
    assert watcher.look(observer.look(began_ms + 62_000)) == []


def test_a_transaction_that_is_left_open_is_named_and_nobody_called_stalled(adapter: Adapter) -> None:
    observer, watcher = Observer(adapter.cluster, adapter.pipeline, canaries=False), evaluator(adapter)
    adapter.send(3)
    adapter.commit(3)
    hanging = TransactionalProducer(adapter.cluster, f"{adapter.pipeline.name}-left-open")
    hanging.init()
    hanging.begin()
    hanging.send(adapter.topic, 0, [Record(value=b"{}")] * 2)
    assert watcher.look(observer.look(now_ms())) == []
    [alarm] = watcher.look(observer.look(now_ms() + 65_000))
    assert alarm.kind is AlarmKind.BLOCKED
    assert hanging.identity.transactional_id in alarm.what
    assert (alarm.offset, alarm.waiting) == (3, 2)
    hanging.abort()
    assert watcher.look(observer.look(now_ms() + 66_000)) == []


def test_whoever_commits_without_forwarding_is_seen_by_its_canaries(adapter: Adapter) -> None:
    observer, watcher = Observer(adapter.cluster, adapter.pipeline, canaries=True), evaluator(adapter)
    began_ms = now_ms()
    observer.look(began_ms)
    adapter.forward(0)
    adapter.commit(1)
    world = observer.look(began_ms + 1_000)
    assert [(each.offset, each.seen_ms) for each in world.canaries] == [(0, began_ms + 1_000)]
    assert watcher.look(world) == []
    steps = {each.group: each.step for each in world.forwardings}
    assert (steps[adapter.pipeline.service_group], steps[adapter.group]) == (0, 1)
    observer.look(began_ms + 31_000)
    adapter.commit(2)
    assert watcher.look(observer.look(began_ms + 60_000)) == []
    adapter.commit(3)
    [alarm] = watcher.look(observer.look(began_ms + 77_000))
    assert (alarm.kind, alarm.offset) == (AlarmKind.CANARY, 1)


def test_a_canary_bears_the_reserved_header(adapter: Adapter) -> None:
    Observer(adapter.cluster, adapter.pipeline, canaries=True).look(now_ms())
    record = fetch_record(adapter.cluster, Place(topic=adapter.topic, partition=0, offset=0))
    assert [name for name, _ in record.headers] == [CANARY_HEADER]


def test_a_group_that_is_deleted_is_missed(adapter: Adapter) -> None:
    observer, watcher = Observer(adapter.cluster, adapter.pipeline, canaries=False), evaluator(adapter)
    adapter.send(5)
    adapter.commit(5)
    began_ms = now_ms()
    assert watcher.look(observer.look(began_ms)) == []
    admin = KafkaAdminClient(bootstrap_servers=adapter.cluster.bootstrap)
    admin.delete_groups([adapter.group])
    admin.close()
    assert watcher.look(observer.look(began_ms + 5_000)) == []
    [alarm] = watcher.look(observer.look(began_ms + 40_000))
    assert (alarm.kind, alarm.group, alarm.offset) == (AlarmKind.BLIND, adapter.group, 5)


def test_a_process_that_was_killed_tells_nothing_any_more_and_one_that_left_need_not(
    adapter: Adapter,
) -> None:
    observer, watcher = Observer(adapter.cluster, adapter.pipeline, canaries=False), evaluator(adapter)
    adapter.commit(0)
    began_ms = now_ms()
    assert observer.look(began_ms).progressed_ms is None
    adapter.pipeline.checkpoint.mkdir(parents=True)
    service, other = (PartFiles(adapter.pipeline.checkpoint, part) for part in parts_of(adapter.pipeline))
    service.write(PartState(pid=1, started_ms=0, updated_ms=began_ms, phase="running"))
    other.write(PartState(pid=2, started_ms=0, updated_ms=began_ms + 60_000, phase="running"))
    assert watcher.look(observer.look(began_ms + 59_000)) == []
    [alarm] = watcher.look(observer.look(began_ms + 61_000))
    assert (alarm.kind, alarm.what.split(" has")[0]) == (AlarmKind.NO_PROGRESS, "the service, process 1,")
    service.write(PartState(pid=1, started_ms=0, updated_ms=began_ms, phase="stopped"))
    assert watcher.look(observer.look(began_ms + 62_000)) == []


@pytest.fixture
def watcher(adapter: Adapter) -> Iterator[str]:
    """A watcher of its own, with thresholds of a second; yields its address."""
    file = adapter.pipeline.path
    text = file.read_text().replace("interval: 1s", "interval: 100ms").replace("stall: 60s", "stall: 1s")
    file.write_text(text)
    with watching(file, "--interval", "200ms", "--no-canaries") as address:
        yield address


def ask(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def check(address: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast", "watch", "check", "--listen", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_stall_is_told_over_http_and_by_check_and_so_is_a_dead_watcher(
    adapter: Adapter, watcher: str
) -> None:
    adapter.send(10)
    adapter.commit(4)
    deadline = time.monotonic() + 60
    alarms: list[dict[str, Any]] = []
    while not alarms and time.monotonic() < deadline:
        alarms = json.loads(ask(watcher, "/alarms"))["alarms"]
    assert [alarm["kind"] for alarm in alarms] == ["stalled"]
    found = check(watcher)
    assert found.returncode == 1
    assert "stalled" in found.stdout
    assert "(at offset 4; 6 messages wait; tenants acme)\n" in found.stdout
    where = f"--bootstrap {adapter.cluster.bootstrap}"
    assert f"\n  holdfast group describe {adapter.group} {where}\n" in found.stdout
    page = ask(watcher, "/metrics")
    assert 'kind="stalled"' in page
    assert_rules_match(page)
    dead = check("127.0.0.1:1")
    assert (dead.returncode, "no watcher answers" in dead.stderr) == (3, True)


def test_a_watcher_that_is_started_in_an_outage_watches_all_the_same(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "connect", partial(connect, seconds_max=0.3))
    words = [
        "--pipeline",
        str(adapter.pipeline.path),
        "--bootstrap",
        "127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
    ]
    done = CliRunner().invoke(cli.watch, [*words, "--interval", "100ms", "--looks", "2"])
    assert done.exit_code == 0, done.output
    assert done.stderr.count("cannot look: cannot connect to 127.0.0.1:1") == 1


def rules() -> list[dict[str, Any]]:
    """Those for Prometheus."""
    found = yaml.safe_load((Path(derive.__code__.co_filename).parent / "rules.yml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


def test_rules_are_for_the_job_that_the_page_on_alarms_names() -> None:
    """One that has another name is told of as if nobody watched; `up` alone tells which watcher is dead."""
    jobs = {job for rule in rules() for job in re.findall(r'\bup\{job="([^"]+)"', rule["expr"])}
    page = (Path(__file__).parents[3] / "docs" / "reconciliation.md").read_text()
    assert jobs == set(re.findall(r"job_name: (\S+)", page)) == {"holdfast-watch"}
    assert not any("absent(holdfast_" in rule["expr"] for rule in rules()), "another watcher would hide it"


def assert_rules_match(page: str) -> None:
    """A rule about a series that nobody exports would never fire."""
    names = {name for rule in rules() for name in re.findall(r"holdfast_\w+", rule["expr"])}
    assert names
    for name in names:
        assert re.search(rf"^{name}[{{ ]", page, re.MULTILINE), name
