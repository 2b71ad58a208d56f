"""Scenarios on real brokers, and the doctor beside them: quiet on a healthy cluster, right before leadership moves."""

import time
from collections.abc import Iterator
from random import Random

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.leaders import move_leader
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, generation_of
from holdfast.doctor.cluster import choose_topics, examine_topics
from holdfast.doctor.live import Meter
from holdfast.lab import account, library
from holdfast.lab.engines.kafka import KafkaEngine
from holdfast.lab.engines.kafka_cluster import open_engine
from holdfast.lab.engines.kafka_options import KafkaOptions
from holdfast.records.record import Record
from tests.cli.commands import Command

RUN_SECONDS_MAX = 600
HEALTHY_SECONDS = 20.0
SEED = 11

pytestmark = pytest.mark.timeout(RUN_SECONDS_MAX)


@pytest.fixture(scope="module", params=["tombstone", "stuck"])
def engine(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Iterator[tuple[str, KafkaEngine]]:
    """Brokers for one scenario; whatever else runs on them runs before it."""
    options = KafkaOptions(version=pytestconfig.getoption("kafka"))
    with open_engine(library.load(request.param), options) as opened:
        yield request.param, opened


def test_a_healthy_cluster_is_clean(engine: tuple[str, KafkaEngine]) -> None:
    """Deletes, transactions and moving leaders under cleaners that never rest: many looks, no finding."""
    name, opened = engine
    if name != "tombstone":
        pytest.skip("once is enough")
    rng = Random(SEED)
    place = TopicPartition("healthy", 0)
    with Cluster(opened.bootstrap) as cluster, Cluster(opened.bootstrap) as looking:
        configs = {
            "cleanup.policy": "compact",
            "segment.ms": "300",
            "delete.retention.ms": "2000",
            "min.cleanable.dirty.ratio": "0",
        }
        create_topic(cluster, place.topic, assignments={0: [1, 2, 3]}, configs=configs)
        plain = Producer(cluster, place.topic)
        producers = [
            TransactionalProducer(cluster, f"p{number}", generation=generation)
            for number, generation in enumerate((TV1, generation_of(cluster)))
        ]
        for producer in producers:
            producer.init()
        looks = 0
        deadline = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < deadline or looks < 10:
            for producer in producers:
                producer.begin()
                producer.send(*place, [_record(rng)])
                rng.choice((producer.commit, producer.abort))()
                plain.send({0: [_record(rng) for _ in range(3)]})
            if looks % 5 == 4:
                move_leader(cluster, place, rng.choice((1, 2, 3)))
            (examined,) = examine_topics(
                looking, choose_topics(looking, [place.topic]), meter=Meter(), wait_s_max=30.0
            )
            assert (examined.findings, examined.not_examined) == ([], []), f"seed {SEED}, look {looks}"
            assert examined.replicas == [1, 2, 3]
            looks += 1


def _record(rng: Random) -> Record:
    value = rng.choice((None, b"1", b"2"))
    return Record(key=f"k{rng.randrange(20)}".encode(), value=value, timestamp_ms=time.time_ns() // 1_000_000)


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
