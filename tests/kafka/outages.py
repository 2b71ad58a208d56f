"""Outages beside a guard that is killed at one of its steps and started again; whoever restores too early is caught."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.leaders import move_leader
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic, describe_configs, describe_configs_on
from holdfast.errors import HoldfastError
from holdfast.guard.lever import MAX_LAG, MIN_LAG, Lags, mark_of
from holdfast.guard.state import Stage
from holdfast.lab.engines.kafka_guard import LabGuard
from holdfast.lab.kafka_broker import KafkaCluster
from holdfast.records.record import Record
from tests.kafka.patience import quietly, wait_for

PLACE = TopicPartition("outages", 0)
OWNER = Lags("100", None)
CONFIGS = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "1",
    "segment.ms": "300",
    # Longer than any outage here: what a doctor is asked about is never harmed, so that every pause has to end.
    "delete.retention.ms": "600000",
    "min.cleanable.dirty.ratio": "0",
    MIN_LAG: "100",
}
PROPERTIES = {
    "log.cleaner.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
}
AWAY = 3
LOOK_PAUSE_S = 0.1


@dataclass
class Outages:
    """One topic on three brokers, the third of which stalls again and again."""

    brokers: KafkaCluster
    directory: Path
    deaths: list[str] = field(default_factory=list)
    """Where the guard was killed, in words."""
    _guard: LabGuard = field(init=False)

    def __post_init__(self) -> None:
        self._guard = LabGuard(self.directory, self.brokers.bootstrap, topic=PLACE.topic)

    def at_each_step(self, tell: Callable[[str], None], first: int = 0) -> None:
        """An outage for each step of a guard, killed there, until one takes no more steps."""
        try:
            for step in count(first):
                death = self.at(step)
                tell(f"step {step}: {death or 'there is none'}")
                if death is None:
                    return
        finally:
            self._guard.kill()

    def at(self, step: int) -> str | None:
        """An outage beside a guard that dies at this step, and where that was; None if it lives to the end."""
        with Cluster(self.brokers.bootstrap, timeout=20.0, patience_s=60.0) as cluster:
            if PLACE.topic not in cluster.metadata().topics:
                create_topic(cluster, PLACE.topic, assignments={0: [1, 2, AWAY]}, configs=CONFIGS)
                self._guard.start()  # once, for its file
                self._guard.kill()
            self._await(lambda: self._in_sync(cluster) == {1, 2, AWAY}, "all replicas to be in sync")
            journal = self.directory / "death"
            journal.unlink(missing_ok=True)
            self._guard.start("tests.kafka.mortal_guard", str(step), str(journal))
            with Warden(self.brokers.bootstrap) as warden:
                self._live_through(cluster, is_late=bool(step % 2))
                self._await(self._is_over, "the end of the pause")
            # One that died before it had anything written down, and came back late, had nothing to do any more.
            assert warden.paused == {1, 2} or step % 2, f"step {step}: {warden.paused} were paused"
            assert warden.early == [], f"step {step}: {warden.early}"
            assert _own_lags(cluster) == OWNER, f"step {step}"
            assert "differs" not in self._guard.log, self._guard.log
            assert "Traceback" not in self._guard.log, self._guard.log
            self._guard.kill()
            death = journal.read_text() if journal.exists() else None
            if death is not None:
                self.deaths.append(death)
            return death

    def _live_through(self, cluster: Cluster, *, is_late: bool) -> None:
        """Replica 3 stalls, and another leads meanwhile. A guard that dies is back at once, or when 3 is."""

        def is_gone_or(so: Callable[[], bool]) -> bool:
            return (is_late and self._guard.is_dead) or so()

        self.brokers.pause_node(AWAY)
        try:
            cluster.disconnect(AWAY)
            self._await(lambda: self._in_sync(cluster) == {1, 2}, "replica 3 to leave the ISR")
            self._await(lambda: is_gone_or(self._is_paused), "the pause")
            move_leader(cluster, PLACE, 3 - cluster.topic(PLACE.topic).partitions[0].leader)
            Producer(cluster, PLACE.topic).send({0: [Record(key=b"k", value=None)]})
            self._await(lambda: is_gone_or(self._is_suspected), "the suspicion")
        finally:
            self.brokers.resume_node(AWAY)
        self._await(lambda: self._in_sync(cluster) == {1, 2, AWAY}, "replica 3 to be back")

    def _is_paused(self) -> bool:
        return self._alive().stage is Stage.PAUSED

    def _is_suspected(self) -> bool:
        hold = self._alive().hold
        return hold is not None and bool(hold.taints)

    def _is_over(self) -> bool:
        return self._alive().stage is None

    def _alive(self) -> LabGuard:
        if self._guard.is_dead:
            self._guard.start()
        return self._guard

    def _in_sync(self, cluster: Cluster) -> set[int]:
        return set(cluster.topic(PLACE.topic).partitions[0].in_sync)

    def _await(self, is_so: Callable[[], bool], what: str) -> None:
        wait_for(is_so, what, told=lambda: self._guard.log)


class Warden(threading.Thread):
    """Asks brokers 1 and 2 all the time, each for what it has in effect and whom it takes for in sync, in this order.

    A broker learns of both from one log. So one that was paused, is not so any more, and afterwards still takes replica
    3 for out of sync was given its settings back too early.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.paused: set[int] = set()
        self.early: list[str] = []
        self._brokers = bootstrap
        self._end = threading.Event()

    def __enter__(self) -> "Warden":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        with Cluster(self._brokers, timeout=5.0, patience_s=5.0) as cluster:
            while not self._end.wait(LOOK_PAUSE_S):
                for node in (1, 2):
                    quietly(lambda: self._ask(cluster, node))  # noqa: B023 - called at once

    def _ask(self, cluster: Cluster, node: int) -> bool:
        told = describe_configs_on(cluster, node, [PLACE.topic], [MIN_LAG, MAX_LAG])[PLACE.topic]
        if isinstance(told, HoldfastError):
            raise told
        lags = Lags(told[MIN_LAG].value, told[MAX_LAG].value)
        in_sync = cluster.metadata_of(node).topics[PLACE.topic].partitions[0].in_sync
        if mark_of(lags) is not None:
            self.paused.add(node)
        elif node in self.paused and AWAY not in in_sync:
            self.early.append(f"broker {node} has {lags} while {set(in_sync)} are in sync")
        return True


def _own_lags(cluster: Cluster) -> Lags:
    own = {
        entry.name: entry.value
        for entry in describe_configs(cluster, PLACE.topic)
        if entry.source.name == "TOPIC"
    }
    return Lags(own.get(MIN_LAG), own.get(MAX_LAG))
