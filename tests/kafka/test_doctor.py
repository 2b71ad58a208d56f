"""Scenarios on real brokers, and the doctor beside them: quiet on a healthy cluster, right before leadership moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.lab import account, library
from holdfast.lab.engines.kafka import KafkaEngine
from holdfast.lab.engines.kafka_cluster import open_engine
from holdfast.lab.engines.kafka_options import KafkaOptions
from tests.cli.commands import Command
from tests.kafka.healthy import Healthy

RUN_SECONDS_MAX = 600
HEALTHY_SECONDS = 60.0
SEED = 11

pytestmark = pytest.mark.timeout(RUN_SECONDS_MAX)


def test_a_healthy_cluster_is_clean(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """Deletes, transactions, leaders that move, restarts: many looks and no finding, and no pause of a guard stays."""
    options = KafkaOptions(version=pytestconfig.getoption("kafka"))
    with open_engine(library.load("tombstone"), options) as opened:
        healthy = Healthy(opened.brokers, tmp_path, SEED)
        healthy.live(HEALTHY_SECONDS)
    assert healthy.transactions > 0
    assert healthy.pauses > 0


@pytest.fixture(scope="module", params=["tombstone", "stuck"])
def engine(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[tuple[str, KafkaEngine]]:
    """Brokers for one scenario."""
    options = KafkaOptions(version=pytestconfig.getoption("kafka"))
    with open_engine(library.load(request.param), options) as opened:
        yield request.param, opened


def test_the_harm_is_there_and_named_before_leadership_moves(engine: tuple[str, KafkaEngine]) -> None:
    """When the replica is back in sync the doctor names it and the variant; then clients meet it."""
    name, opened = engine
    command = Command(opened.bootstrap)
    before = command.run("doctor", "--topic", "lab", "--json")
    assert (before.code, before.json["findings"]) == (0, [])
    story = account.begin_on(opened, library.load(name))
    for frame in account.advance(story):
        if frame.line.verb == "await-isr":
            answer = command.run("doctor", "--topic", "lab", "--json")
            (finding,) = answer.json["findings"]
            assert (answer.code, answer.json["not_examined"]) == (1, [])
            assert (finding["topic"], finding["replica"], finding["variant"]) == ("lab", 3, name)
            assert (finding["offsets"], finding["differs_from"]) == ([0], [1, 2])
            assert opened.leader_id == 1
    told = story.as_json()
    assert (told["engine"], told["diverged"], told["variant"]) == ("kafka", True, name)
    assert {each["replica"] for each in told["evidence"]} == {3}


def test_a_stuck_leader_is_released(engine: tuple[str, KafkaEngine]) -> None:
    """While the stuck replica leads, an abort of what hangs there lets its readers go on."""
    name, opened = engine
    if name != "stuck":
        pytest.skip("nothing hangs")
    command = Command(opened.bootstrap)
    answer = command.run("doctor", "--topic", "lab", "--json")
    (finding,) = answer.json["findings"]
    replica = opened.replicas[3]
    replica.touch()
    assert (opened.leader_id, replica.last_stable_offset) == (3, 0)
    repair = ("doctor", "repair", f"lab:0:producer={finding['producer_id']}")
    assert f"holdfast {' '.join(repair)}" in finding["advice"]
    answer = command.run(*repair, "--yes", "--json")
    assert (answer.code, answer.json[0]["findings_left"]) == (0, [])
    replica.touch()
    assert replica.last_stable_offset == replica.high_watermark


def test_a_rebuilt_replica_is_clean(engine: tuple[str, KafkaEngine]) -> None:
    """It leads when it is to be rebuilt; afterwards it has what the others have, and its place in the assignment."""
    name, opened = engine
    command = Command(opened.bootstrap)
    dry = command.run("doctor", "repair", "lab:0:3", "--dry-run", "--json")
    assert (dry.code, dry.json[0]["done"], len(dry.json[0]["steps"])) == (0, False, 5)
    answer = command.run("doctor", "repair", "lab:0:3", "--yes", "--json")
    assert (answer.code, answer.json[0]["findings_left"]) == (0, [])
    assert answer.err.splitlines() == dry.json[0]["steps"]
    assert command.run("doctor", "--topic", "lab").code == 0
    with Cluster(opened.bootstrap) as cluster:
        partition = cluster.topic("lab").partitions[0]
        assert (set(partition.replicas), set(partition.in_sync)) == ({1, 2, 3}, {1, 2, 3})
    replica = opened.replicas[3]
    replica.touch()
    assert set(replica.table()) == ({"filler"} if name == "tombstone" else {"K", "news", "filler"})
