"""Copies that no pause can protect: one made from two leaders, and an old one that is assigned again.

The guard suspects both, a doctor finds what is wrong, cleanup waits, and a repair ends it.
"""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.leaders import assign_replicas, move_leader
from holdfast.client.producer import Producer
from holdfast.client.replica_log import find_bounds
from holdfast.client.topics import alter_configs, create_topic
from holdfast.guard.lever import Lags, mark_of
from holdfast.guard.state import Stage
from holdfast.lab.engines.kafka_guard import LabGuard
from holdfast.lab.engines.kafka_replica import BrokerReplica
from holdfast.lab.kafka_broker import STARTS_FAST, KafkaCluster, find_release
from holdfast.records.record import Record
from tests.cli.commands import Command, run_holdfast
from tests.kafka.guarded import own_lags
from tests.kafka.patience import wait_for

PLACE = TopicPartition("lab", 0)
CONFIGS = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "1",
    "segment.ms": "300",
    "delete.retention.ms": "1000",
    "min.cleanable.dirty.ratio": "0",
}
PROPERTIES = {
    "log.cleaner.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # A copy takes one batch, and then its share of the next minute is used up.
    "replica.fetch.max.bytes": "1000",
    "replication.quota.window.num": "61",
}
BEHIND = {1: {"log.cleaner.enable": "false"}}
THROTTLED = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"
LARGE = b"v" * 5000

pytestmark = pytest.mark.timeout(600)


class Lab:
    """Three brokers, the first of which does not clean; a topic on two of them, and a guard."""

    def __init__(self, brokers: KafkaCluster, cluster: Cluster, guard: LabGuard) -> None:
        self.brokers = brokers
        self.cluster = cluster
        self.guard = guard
        self.command = Command(brokers.bootstrap)
        self._producer = Producer(cluster, PLACE.topic, acks=1)

    def write(self, key: str, value: bytes | None) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._producer.send({0: [Record(key=key.encode(), value=value, timestamp_ms=now_ms)]})

    def holds(self, node: int, key: str) -> bool:
        """Whether a replica has any record of a key."""
        return any(entry.key == key for entry in self.replica(node).entries)

    def replica(self, node: int) -> BrokerReplica:
        return BrokerReplica(id=node, clients=self.cluster, place=PLACE, written={})

    def delete(self, key: str) -> None:
        """And write until the cleaner of broker 2 has dropped the key and its delete."""
        self.write(key, None)
        deleted_at = self._producer.written[0].last

        def is_gone() -> bool:
            self.write("filler", b"0")
            # A follower that has not heard of the delete yet holds none, either.
            return self.replica(2).high_watermark > deleted_at and not self.holds(2, key)

        self.wait(is_gone, f"{key} to be gone on broker 2")
        assert self.holds(1, key)

    def in_sync(self) -> set[int]:
        return set(self.cluster.topic(PLACE.topic).partitions[0].in_sync)

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        wait_for(is_so, what, told=lambda: self.guard.log)

    def is_found_out(self) -> bool:
        """Whether a doctor has told the guard of replica 3."""
        hold = self.guard.hold
        return hold is not None and any("replica 3 differs" in (taint.verdict or "") for taint in hold.taints)


@pytest.fixture(scope="module")
def lab(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("rebuilds")
    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    with (
        KafkaCluster(
            directory,
            jars=jars,
            nodes=3,
            properties=PROPERTIES,
            node_properties=BEHIND,
            heap_mb=400,
            log_level="ERROR",
            java_options=STARTS_FAST,
        ) as brokers,
        Cluster(brokers.bootstrap, timeout=20.0, patience_s=60.0) as cluster,
    ):
        create_topic(cluster, PLACE.topic, assignments={0: [1, 2]}, configs=CONFIGS)
        guard = LabGuard(directory, brokers.bootstrap)
        try:
            yield Lab(brokers, cluster, guard)
        finally:
            guard.kill()


def test_a_copy_from_two_leaders(lab: Lab) -> None:
    """`mixed-sources` on real brokers: the value comes from broker 1, and broker 2 has long forgotten its delete."""
    lab.write("K", LARGE)
    lab.write("L", b"W")
    lab.delete("K")
    lab.guard.start()
    _throttle(lab)
    assign_replicas(lab.cluster, PLACE, [1, 2, 3])
    lab.wait(lambda: find_bounds(lab.cluster, 3, PLACE).log_end == 1, "the first batch to be copied")
    lab.wait(lambda: lab.guard.stage is Stage.PAUSED, "the pause")
    move_leader(lab.cluster, PLACE, 2)
    assert find_bounds(lab.cluster, 3, PLACE).log_end == 1
    alter_configs(lab.cluster, PLACE.topic, put={}, unset=[THROTTLED])
    _found_out_and_repaired(lab, "K")


def test_an_old_copy_that_is_assigned_again(lab: Lab) -> None:
    """Out of the assignment while its broker is down, and back in before that one has dropped its copy."""
    lab.write("X", b"V")
    lab.wait(lambda: lab.holds(3, "X"), "X on broker 3")
    lab.brokers.kill_node(3)
    lab.cluster.disconnect(3)
    lab.wait(lambda: lab.in_sync() == {1, 2}, "replica 3 to leave the ISR")
    lab.wait(lambda: lab.guard.stage is Stage.PAUSED, "the pause")
    assign_replicas(lab.cluster, PLACE, [2, 1])
    lab.wait(lambda: lab.guard.stage is None, "the pause to end: nobody who is assigned is away")
    lab.delete("X")
    assign_replicas(lab.cluster, PLACE, [2, 1, 3])
    lab.wait(lambda: lab.guard.stage is Stage.PAUSED, "the pause")
    lab.brokers.launch(3)
    lab.brokers.wait_ready()
    _found_out_and_repaired(lab, "X")
    lab.wait(lambda: lab.guard.stage is None, "the end of the pause")
    assert own_lags(lab.brokers.bootstrap) == Lags()
    assert lab.guard.stop() == 0
    assert "Traceback" not in lab.guard.log


def _found_out_and_repaired(lab: Lab, key: str) -> None:
    lab.wait(lambda: lab.in_sync() == {1, 2, 3}, "replica 3 to be in sync")
    lab.wait(lab.is_found_out, "an examination")
    assert lab.holds(3, key)
    assert mark_of(own_lags(lab.brokers.bootstrap)) is not None, "cleanup must not go on"
    status = run_holdfast("guard", "status", "--state", str(lab.guard.file.path))
    assert (status.code, "holdfast doctor repair lab:0:3" in status.text) == (1, True)
    answer = lab.command.run("doctor", "--topic", PLACE.topic, "--json")
    (finding,) = answer.json["findings"]
    assert (answer.code, finding["replica"], finding["variant"]) == (1, 3, "tombstone")
    answer = lab.command.run("doctor", "repair", "lab:0:3", "--yes", "--json")
    assert (answer.code, answer.json[0]["findings_left"]) == (0, [])
    assert not lab.holds(3, key)


def _throttle(lab: Lab) -> None:
    """As operators do who move replicas: broker 3 is to copy next to nothing at a time."""
    alter_configs(lab.cluster, PLACE.topic, put={THROTTLED: "*"}, unset=[])
    admin = AdminClient({"bootstrap.servers": lab.brokers.bootstrap, "log_level": 0})
    entry = ConfigEntry(RATE, "10", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "3", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
