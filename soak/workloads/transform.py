"""Consume, transform, produce: t1 into t2 or t3 with the positions in the transaction, by workers that are killed."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from holdfast.client.topics import create_topic
from soak import txn_checker
from soak.clients import CLIENTS
from soak.clients.own import position_of
from soak.committed import Committed, create_bootstrap_cluster, read_all
from soak.feeder import Feeder
from soak.fleet import Slot, WorkerFault, draw_faults
from soak.history import Violation
from soak.txn_history import Place, Transaction
from soak.watcher import Watcher
from soak.workers.transform import origin_of, target_of
from soak.workload import LAST_WORDS_SECONDS, Logs, Setting

INPUT = "input"
WORKER = "worker"
GROUP_POSITION = "position"
WORKER_FAULTS_MAX = 3
SHARE_OF_ROUNDS = 0.4
WAIT_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSpec:
    """One pipeline; a worker for each partition of its input."""

    client: str
    nodes: int
    faults: tuple[tuple[WorkerFault, ...], ...]
    seed: int
    from_start: int = 0

    @property
    def name(self) -> str:
        """Of the group, and a part of all names."""
        return f"transform-{self.client}"

    @property
    def source(self) -> str:
        """t1."""
        return f"{self.name}-t1"

    @property
    def targets(self) -> tuple[str, str]:
        """t2 and t3."""
        return f"{self.name}-t2", f"{self.name}-t3"

    def build(self, bootstrap: str) -> "Transform":
        """The pipeline, ready to start."""
        return Transform(self, bootstrap)


def draw(chance: Random, setting: Setting) -> list[TransformSpec]:
    """In some rounds one, with one of the clients."""
    if chance.random() >= SHARE_OF_ROUNDS:
        return []
    return [draw_one(chance, setting, chance.choice(sorted(CLIENTS)))]


def draw_one(chance: Random, setting: Setting, client: str) -> TransformSpec:
    """A pipeline with this client."""
    workers = chance.randrange(1, 3)
    return TransformSpec(
        client=client,
        nodes=setting.nodes,
        faults=tuple(draw_faults(chance, WORKER_FAULTS_MAX) for _ in range(workers)),
        seed=chance.getrandbits(32),
    )


class Transform:
    """Feeders, workers and a watcher."""

    def __init__(self, spec: TransformSpec, bootstrap: str) -> None:
        self._spec = spec
        self._bootstrap = bootstrap
        self._create_topics()
        places = [Place(spec.source, partition) for partition in range(len(spec.faults))]
        self.slots = [
            Slot("soak.workers.transform", self._arguments_of(place), faults)
            for place, faults in zip(places, spec.faults, strict=True)
        ]
        self._feeders = [
            Feeder(bootstrap, place, seed=f"{spec.seed}/{place}", done=_counter(slot))
            for place, slot in zip(places, self.slots, strict=True)
        ]
        targets = [Place(topic, place.partition) for topic in spec.targets for place in places]
        self._watcher = Watcher(f"{spec.name}-watcher", bootstrap, targets)
        self._targets = targets
        self._committed = Committed()
        self._positions: dict[Place, int | None] = {}

    @property
    def acknowledged(self) -> int:
        """Records of committed transactions."""
        return sum(_counter(slot)() for slot in self.slots)

    def start(self) -> None:
        """Begin to feed, transform and watch."""
        self._watcher.start()
        for feeder in self._feeders:
            feeder.start()
        for slot in self.slots:
            slot.start()

    def finish(self, seconds_max: float) -> None:
        """Every fault happens, the input ends, and the workers come to its end."""
        is_up = seconds_max > LAST_WORDS_SECONDS
        if is_up:
            self._await_faults(time.monotonic() + seconds_max)
            for feeder in self._feeders:
                feeder.finish()
            self._await_positions(time.monotonic() + seconds_max)
        for slot in self.slots:
            slot.stop()
        if is_up:
            self._committed = read_all(self._bootstrap, [self._spec.source, *self._spec.targets])
        self._watcher.finish(self._committed.ends(self._targets) if is_up else {}, seconds_max)

    @property
    def transactions(self) -> list[Transaction]:
        """Of all workers' lives."""
        return [each for slot in self.slots for each in slot.transactions]

    def check(self, logs: Logs) -> list[Violation]:
        """Input and output match, and nobody saw anything else on the way."""
        found = list(self._committed.violations) + self._watcher.check()
        targets = {place: self._committed.logs[place] for place in self._targets}
        transactions = self.transactions
        found += txn_checker.check_transactions(transactions, targets)
        found += txn_checker.check_reader(self._watcher.history, transactions, targets)
        for feeder in self._feeders:
            found += self._check_partition(feeder)
        found += [
            Violation(WORKER, failure) for slot in self.slots for failure in slot.failures(self._spec.client)
        ]
        return found

    def is_still_there(self) -> bool:
        """Whether the log shows what it showed after `finish`, and the group's positions with it."""
        with create_bootstrap_cluster(self._bootstrap) as cluster:
            positions = {place: position_of(cluster, self._spec.name, place) for place in self._positions}
        committed = read_all(self._bootstrap, [self._spec.source, *self._spec.targets])
        return (committed, positions) == (self._committed, self._positions)

    def _check_partition(self, feeder: Feeder) -> Iterator[Violation]:
        """What went in came out once, in the order of each output, and the group is at the end."""
        if feeder.error is not None:
            yield Violation(INPUT, f"the feeder of {feeder.place} gave up: {feeder.error}")
        source = self._committed.logs[feeder.place]
        if [record.value for record in source] != feeder.sent:
            yield Violation(INPUT, f"{feeder.place} holds something else than what was committed to it")
        for topic in self._spec.targets:
            expected = [value for value in feeder.sent if target_of(value, self._spec.targets) == topic]
            place = Place(topic, feeder.place.partition)
            actual = [origin_of(record.value) for record in self._committed.logs[place]]
            if actual != expected:
                yield _difference(place, expected, actual)
        end = source[-1].offset + 1 if source else None
        if self._positions.get(feeder.place) != end:
            yield Violation(
                GROUP_POSITION,
                f"{self._spec.name} is at {self._positions.get(feeder.place)} of {feeder.place}, not at its end {end}",
            )

    def _await_faults(self, deadline: float) -> None:
        for slot in self.slots:
            slot.has_met_all_faults.wait(max(0.0, deadline - time.monotonic()))

    def _await_positions(self, deadline: float) -> None:
        with create_bootstrap_cluster(self._bootstrap) as cluster:
            ends = read_all(self._bootstrap, [self._spec.source]).ends(
                feeder.place for feeder in self._feeders
            )
            while time.monotonic() < deadline:
                self._positions = {place: position_of(cluster, self._spec.name, place) for place in ends}
                if self._positions == ends:
                    return
                time.sleep(WAIT_SECONDS)

    def _create_topics(self) -> None:
        with create_bootstrap_cluster(self._bootstrap) as cluster:
            for topic in (self._spec.source, *self._spec.targets):
                create_topic(
                    cluster,
                    topic,
                    partitions=len(self._spec.faults),
                    replication_factor=min(3, self._spec.nodes),
                )

    def _arguments_of(self, place: Place) -> Any:
        spec = self._spec

        def arguments(life: int) -> Mapping[str, Any]:
            return {
                "client": spec.client,
                "bootstrap": self._bootstrap,
                "transactional_id": f"{spec.name}-{place.partition}",
                "name": f"w{place.partition}.{life}",
                "source": place,
                "targets": spec.targets,
                "group": spec.name,
                "seed": f"{spec.seed}/{place.partition}/{life}",
            }

        return arguments


def _counter(slot: Slot) -> Any:
    return lambda: sum(worker.notes.committed_records for worker in list(slot.workers))


def _difference(place: Place, expected: list[bytes], actual: list[bytes]) -> Violation:
    at = next((n for n, pair in enumerate(zip(expected, actual, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(expected), len(actual)) if at is None else at
    return Violation(
        txn_checker.LOST_WRITE if len(actual) < len(expected) else txn_checker.DUPLICATE,
        f"{place} has {len(actual)} of {len(expected)} inputs; record {at} is "
        f"{actual[at : at + 1]} where {expected[at : at + 1]} is due",
    )
