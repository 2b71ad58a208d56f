"""A healthy cluster that is never at rest, with a doctor and a guard beside it.

Whatever the doctor confirms here is a false alarm, and every pause of the guard has to end when all are back. Nothing
may be dropped that a broker which restarts has not heard of: `delete.retention.ms` is a day.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.leaders import move_leader
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic, describe_configs
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, Generation, generation_of
from holdfast.doctor.cluster import choose_topics, examine_topics
from holdfast.doctor.examine import Examination
from holdfast.doctor.live import Meter
from holdfast.errors import HoldfastError
from holdfast.guard.lever import MAX_LAG, MIN_LAG
from holdfast.lab.engines.kafka_guard import LabGuard
from holdfast.lab.kafka_broker import KafkaCluster
from holdfast.records.record import Record

CONFIGS = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "1",
    "segment.ms": "300",
    "delete.retention.ms": "86400000",
    "min.cleanable.dirty.ratio": "0",
}
PLACE = TopicPartition("healthy", 0)
WAIT_SECONDS_MAX = 30.0
CATCH_UP_SECONDS_MAX = 180.0
ROUNDS_BETWEEN = 3


@dataclass
class Healthy:
    """One topic on three brokers; `seed` decides what is written, who leads and who restarts."""

    brokers: KafkaCluster
    directory: Path
    """The guard's."""
    seed: int
    looks: int = 0
    """Those that compared all three replicas."""
    restarts: int = 0
    moves: int = 0
    transactions: int = 0
    _guard: LabGuard = field(init=False)
    _rng: Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)
        self._guard = LabGuard(self.directory, self.brokers.bootstrap, topic=PLACE.topic)

    @property
    def pauses(self) -> int:
        """How often the guard has paused the topic on all brokers that ran."""
        return self._guard.log.count(f"{PLACE.topic} is paused: ")

    def live(self, seconds: float, *, looks_min: int = 10, restarts_min: int = 1) -> None:
        """Leaders move and brokers restart, one at a time, while records are written and replicas compared."""
        with Cluster(self.brokers.bootstrap, timeout=20.0, patience_s=60.0) as cluster:
            create_topic(cluster, PLACE.topic, assignments={0: [1, 2, 3]}, configs=CONFIGS)
            writer = Writer(cluster, self._rng)
            with self._guarded(cluster):
                self._live(cluster, writer, seconds, looks_min=looks_min, restarts_min=restarts_min)
            self.transactions = writer.transactions

    @contextmanager
    def _guarded(self, cluster: Cluster) -> Iterator[None]:
        """Beside a guard from entry to exit, which in the end has put back all that it changed."""
        try:
            self._guard.start()
            yield
            self._patiently(lambda: _check_untouched(cluster))
            assert self._guard.stop() == 0, self._guard.log
            assert "Traceback" not in self._guard.log, self._guard.log
        finally:
            self._guard.kill()

    def _live(
        self, cluster: Cluster, writer: "Writer", seconds: float, *, looks_min: int, restarts_min: int
    ) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or self.looks < looks_min or self.restarts < restarts_min:
            self._restart(self._rng.choice((1, 2, 3)), cluster, writer)
            for _ in range(ROUNDS_BETWEEN):
                self._go_on(writer)
            self._patiently(partial(move_leader, cluster, PLACE, self._rng.choice((1, 2, 3))))
            self.moves += 1
            self._go_on(writer)
            self._await_no_pause(writer)

    def _await_no_pause(self, writer: "Writer") -> None:
        """All are back: no pause may stay, whatever else goes on."""
        deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
        while (hold := self._guard.hold) is not None:
            assert not [taint for taint in hold.taints if "differs" in (taint.verdict or "")], hold
            assert time.monotonic() < deadline, f"still {hold} (seed {self.seed})"
            self._go_on(writer)

    def _restart(self, node: int, cluster: Cluster, writer: "Writer") -> None:
        self._go_on(writer)
        self.brokers.stop_node(node)
        self._go_on(writer, away=node)
        self.brokers.launch(node)
        deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
        while not self._is_in_sync(cluster, node):
            assert time.monotonic() < deadline, f"node {node} does not come back (seed {self.seed})"
            self._go_on(writer, away=node)
        self.restarts += 1

    def _is_in_sync(self, cluster: Cluster, node: int) -> bool:
        try:
            return node in cluster.topic(PLACE.topic).partitions[0].in_sync
        except HoldfastError:
            return False

    def _go_on(self, writer: "Writer", away: int | None = None) -> None:
        writer.write()
        for examined in self._look():
            assert examined.findings == [], f"seed {self.seed}, look {self.looks}"
            missed = {each.replica for each in examined.not_examined}
            assert missed <= {away, None}, f"seed {self.seed}, look {self.looks}: {examined.not_examined}"
            if examined.place == PLACE and examined.replicas == [1, 2, 3]:
                self.looks += 1

    def _look(self) -> list[Examination]:
        """At every compacted topic, those of the brokers themselves too; as one who calls the doctor now would."""
        try:
            with Cluster(self.brokers.bootstrap, timeout=20.0, patience_s=30.0) as cluster:
                chosen = choose_topics(cluster, [])
                return list(examine_topics(cluster, chosen, meter=Meter(), wait_s_max=WAIT_SECONDS_MAX))
        except HoldfastError as failure:
            if not failure.retriable:
                raise
            return []  # whoever was asked is just going down: the next look asks another

    def _patiently(self, ask: Callable[[], None]) -> None:
        deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
        while True:
            try:
                return ask()
            except HoldfastError as failure:
                if not failure.retriable or time.monotonic() > deadline:
                    raise


def _check_untouched(cluster: Cluster) -> None:
    own = {entry.name for entry in describe_configs(cluster, PLACE.topic) if entry.source.name == "TOPIC"}
    assert not own & {MIN_LAG, MAX_LAG}, "the guard has left something behind"


class Writer:
    """Plain records and transactions of both generations; one that a restart breaks begins anew, as clients do."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.transactions = 0
        self._cluster = cluster
        self._rng = rng
        self._generations = (TV1, generation_of(cluster))
        self._producers: dict[int, TransactionalProducer] = {}

    def write(self) -> None:
        """A few records outside of transactions, and a transaction of each producer."""
        for number, generation in enumerate(self._generations):
            try:
                self._transact(number, generation)
                Producer(self._cluster, PLACE.topic).send({0: [self._record() for _ in range(3)]})
            except HoldfastError:
                # Broken off or fenced: what it wrote is aborted when its successor begins.
                self._producers.pop(number, None)

    def _transact(self, number: int, generation: Generation) -> None:
        if number not in self._producers:
            producer = TransactionalProducer(self._cluster, f"p{number}", generation=generation)
            producer.init()
            self._producers[number] = producer
        producer = self._producers[number]
        producer.begin()
        producer.send(*PLACE, [self._record()])
        self._rng.choice((producer.commit, producer.abort))()
        self.transactions += 1

    def _record(self) -> Record:
        value = self._rng.choice((None, b"1", b"2"))
        key = f"k{self._rng.randrange(20)}".encode()
        return Record(key=key, value=value, timestamp_ms=time.time_ns() // 1_000_000)
