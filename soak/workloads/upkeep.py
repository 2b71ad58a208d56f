"""Writers and readers of a compacted topic, while its stores are settled and compacted and keepers are killed."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.producer import Producer
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import State, TransactionalProducer
from holdfast.client.transactions import TV1, TV2, Generation
from holdfast.errors import ConnectionFailed, HoldfastError
from holdfast.records.build import Record, read_records
from soak import table_checker
from soak.history import Violation
from soak.rest import VERSION, await_rest, count_in_segments, read_tables, version_of
from soak.table_history import Outcome, TableHistory, TableReader, TableSighting, TableWrite
from soak.workload import PATIENCE_SECONDS, Logs, Setting

Made = TypeVar("Made")

TOPIC = "upkeep"
REFUSED = "refused"
UNREST = "unrest"
RETENTION_MS = 1_500
KEYS_PER_PARTITION = 12
RECORDS_PER_BATCH_MAX = 12
SHARE_OF_DELETES = 0.3
SHARE_OF_ABORTS = 0.4
SHARE_OF_ONCE = 0.4
ONCE_MAX = 20
"""Keys of a partition that a writer has written once and not yet deleted."""
VALUE_BYTES_MAX = 400
FETCH_BYTES = 4_000
SHARE_OF_ROUNDS = 0.4

CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": str(RETENTION_MS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSpec:
    """One topic, its writers by kind, and how slow its slow reader is."""

    nodes: int
    partitions: int
    idempotent: int
    transactional: int
    pause_ms_max: int
    """How long a writer waits between two batches at most."""
    slow_ms: int
    """How long the slow reader waits between two fetches."""
    seed: int
    from_start: int = 0

    def build(self, bootstrap: str) -> "Upkeep":
        """The clients, ready to start."""
        return Upkeep(self, bootstrap)


def draw(chance: Random, setting: Setting) -> list[UpkeepSpec]:
    """In some rounds with three nodes one."""
    is_one = chance.random() < SHARE_OF_ROUNDS
    return [draw_one(chance, setting)] if is_one and setting.nodes == 3 else []


def draw_one(chance: Random, setting: Setting) -> UpkeepSpec:
    """A topic that is written to."""
    return UpkeepSpec(
        nodes=setting.nodes,
        partitions=chance.randrange(1, 3),
        idempotent=chance.randrange(1, 3),
        transactional=chance.randrange(1, 3),
        pause_ms_max=chance.choice([5, 50]),
        slow_ms=chance.choice([50, 400]),
        seed=chance.getrandbits(32),
    )


class Upkeep:
    """Threads: writers with keys of their own, a reader that keeps up and one that does not."""

    def __init__(self, spec: UpkeepSpec, bootstrap: str) -> None:
        self._spec = spec
        self._bootstrap = bootstrap
        self._writers: list[_Writer] = [
            *(_Idempotent(spec, bootstrap, number) for number in range(spec.idempotent)),
            *(_Transactional(spec, bootstrap, spec.idempotent + each) for each in range(spec.transactional)),
        ]
        self._readers = [
            _Reader("quick", spec, bootstrap, 0.0),
            _Reader("slow", spec, bootstrap, spec.slow_ms / 1000),
        ]
        with Cluster(bootstrap, patience_s=PATIENCE_SECONDS) as cluster:
            create_topic(
                cluster,
                TOPIC,
                partitions=spec.partitions,
                replication_factor=min(3, spec.nodes),
                configs=CONFIGS,
            )

    @property
    def histories(self) -> list[TableHistory]:
        """What every writer did."""
        return [writer.history for writer in self._writers]

    @property
    def acknowledged(self) -> int:
        """Records."""
        return sum(writer.acknowledged for writer in self._writers)

    def start(self) -> None:
        """Begin to write and to read."""
        for each in (*self._writers, *self._readers):
            each.start()

    def finish(self, seconds_max: float) -> None:
        """Writers end; then readers read what there is."""
        for each in (*self._writers, *self._readers):
            each.stop(seconds_max)

    def check(self, logs: Logs) -> list[Violation]:
        """No reader was shown what it must not see, and nobody was refused."""
        found = [
            Violation(REFUSED, f"{each.name}: {each.failure}")
            for each in (*self._writers, *self._readers)
            if each.failure is not None
        ]
        for reader in self._readers:
            found += table_checker.check_reader(
                self.histories, reader.history, retention_s=RETENTION_MS / 1000
            )
        return found

    def check_rest(self, data: Path, seconds_max: float = PATIENCE_SECONDS) -> list[Violation]:
        """Once every store is back: all replicas come to show the same and have forgotten what there is to forget."""
        unrest = await_rest(data, TOPIC, seconds_max)
        if unrest:
            return [Violation(UNREST, f"after {seconds_max:g} s there are {unrest}")]
        nodes = self._spec.nodes
        tables = read_tables(data, self._bootstrap, TOPIC, nodes=nodes, patience_s=PATIENCE_SECONDS)
        return [
            *table_checker.check_replicas(self.histories, list(tables)),
            *table_checker.check_segments(self.histories, count_in_segments(data, TOPIC)),
        ]


class _Thread(ABC):
    """Something that goes on until it is told to stop; `failure` is why it ended before that."""

    def __init__(self, name: str, spec: UpkeepSpec, bootstrap: str) -> None:
        self.name = name
        self.failure: str | None = None
        self._spec = spec
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds_max: float) -> None:
        self._stop.set()
        self._thread.join(seconds_max)
        if self._thread.is_alive():
            self.failure = f"no end within {seconds_max:g} s"

    def _run(self) -> None:
        try:
            with Cluster(self._bootstrap, patience_s=PATIENCE_SECONDS) as cluster:
                self._work(cluster)
        except HoldfastError as failure:
            self.failure = f"{type(failure).__name__}: {failure}"

    @abstractmethod
    def _work(self, cluster: Cluster) -> None:
        """What it does until it is told to stop."""


class _Writer(_Thread):
    """Writes to keys that nobody else writes to."""

    def __init__(self, spec: UpkeepSpec, bootstrap: str, number: int) -> None:
        super().__init__(f"writer {number}", spec, bootstrap)
        self.history = TableHistory(name=self.name)
        self.acknowledged = 0
        self._number = number
        self._chance = Random(f"{spec.seed}/{number}")
        self._once: dict[int, list[bytes]] = {partition: [] for partition in range(spec.partitions)}
        self._once_made = 0
        self._versions = iter(range(number, 1 << 62, spec.idempotent + spec.transactional))

    def _draw_batch(self, outcome: Outcome) -> tuple[int, list[TableWrite], list[Record]]:
        """Noted before it is sent."""
        partition = self._chance.randrange(self._spec.partitions)
        writes, records = [], []
        for _ in range(self._chance.randrange(1, RECORDS_PER_BATCH_MAX + 1)):
            key, is_delete = self._draw_key(partition)
            write = TableWrite(
                key=key,
                version=next(self._versions),
                partition=partition,
                is_delete=is_delete,
                outcome=outcome,
            )
            writes.append(write)
            records.append(
                Record(
                    key=write.key,
                    value=None if write.is_delete else bytes(self._chance.randrange(VALUE_BYTES_MAX)),
                    headers=[(VERSION, b"%d" % write.version)],
                    timestamp_ms=int(time.time() * 1000),
                )
            )
        self.history.writes += writes
        return partition, writes, records

    def _draw_key(self, partition: int) -> tuple[bytes, bool]:
        """A key, and whether it is deleted.

        Some are written all the time, and what went wrong with them is soon covered up. Others are written once, and
        perhaps deleted once, much later: they would show it for good.
        """
        if self._chance.random() < SHARE_OF_ONCE:
            once = self._once[partition]
            if len(once) < ONCE_MAX:
                self._once_made += 1
                once.append(b"%d-%d-once-%d" % (self._number, partition, self._once_made))
                return once[-1], False
            return once.pop(self._chance.randrange(len(once))), True
        rank = int(KEYS_PER_PARTITION * self._chance.random() ** 3)
        return b"%d-%d-%d" % (self._number, partition, rank), self._chance.random() < SHARE_OF_DELETES

    def _pause(self) -> None:
        self._stop.wait(self._chance.randrange(self._spec.pause_ms_max + 1) / 1000)


class _Idempotent(_Writer):
    def _work(self, cluster: Cluster) -> None:
        producer = _patiently(cluster, lambda: Producer(cluster, TOPIC))
        while not self._stop.is_set():
            partition, writes, records = self._draw_batch(Outcome.UNKNOWN)
            producer.send({partition: records})
            _settle(writes, producer.written[partition].last + 1 - len(writes))
            self.acknowledged += len(writes)
            self._pause()


class _Transactional(_Writer):
    @property
    def _generation(self) -> Generation:
        return TV1 if self._number % 2 else TV2

    def _work(self, cluster: Cluster) -> None:
        producer = TransactionalProducer(cluster, f"{TOPIC}-{self._number}", generation=self._generation)
        producer.init()
        while not self._stop.is_set():
            producer.begin()
            sent = [self._send(producer) for _ in range(self._chance.randrange(1, 4))]
            self._pause()
            if self._chance.random() < SHARE_OF_ABORTS:
                producer.abort()
                continue
            for write in (write for _, writes in sent for write in writes):
                write.outcome = Outcome.UNKNOWN
            _commit(producer)
            for first, writes in sent:
                _settle(writes, first)
                self.acknowledged += len(writes)

    def _send(self, producer: TransactionalProducer) -> tuple[int, list[TableWrite]]:
        partition, writes, records = self._draw_batch(Outcome.TAKEN_BACK)
        return producer.send(TOPIC, partition, records), writes


class _Reader(_Thread):
    """Reads from the first offset on, a few batches at a time."""

    def __init__(self, name: str, spec: UpkeepSpec, bootstrap: str, pause_s: float) -> None:
        super().__init__(f"{name} reader", spec, bootstrap)
        self.history = TableReader(name=self.name)
        self._pause_s = pause_s
        self._positions = dict.fromkeys(range(spec.partitions), 0)

    def _work(self, cluster: Cluster) -> None:
        while not self._stop.is_set():
            self._read(cluster)
            self._stop.wait(max(self._pause_s, 0.05))
        # Nobody writes any more.
        self._read(cluster)
        self.history.ended_s = time.monotonic()

    def _read(self, cluster: Cluster) -> None:
        isolation = Isolation.READ_COMMITTED
        ends = list_offsets(cluster, TOPIC, dict.fromkeys(self._positions, LATEST), isolation=isolation)
        for partition, end in ends.items():
            start = self._positions[partition]
            wanted = OffsetRange(topic=TOPIC, partition=partition, start=start, end=end)
            asked_s = time.monotonic()
            for chunk in read_range(cluster, wanted, isolation=isolation, fetch_bytes=FETCH_BYTES):
                got_s = time.monotonic()
                for batch in without_aborted(chunk.batches, chunk.aborted):
                    for record in () if batch.is_control else read_records(batch):
                        assert record.offset is not None
                        assert record.key is not None
                        if start <= record.offset < end:
                            self.history.seen.append(
                                TableSighting(
                                    key=record.key,
                                    version=version_of(record.headers),
                                    partition=partition,
                                    offset=record.offset,
                                    is_delete=record.value is None,
                                    asked_s=asked_s,
                                    got_s=got_s,
                                )
                            )
                self._stop.wait(self._pause_s)
                asked_s = time.monotonic()
            self._positions[partition] = max(start, end)


def _patiently(cluster: Cluster, make: Callable[[], Made]) -> Made:
    """What is made with one request, which a kill may break off."""
    patience = cluster.patience()
    while True:
        try:
            return make()
        except ConnectionFailed as failure:
            patience.wait(failure)


def _commit(producer: TransactionalProducer) -> None:
    """Commit, however often it takes to hear of it."""
    try:
        producer.commit()
    except HoldfastError:
        if producer.state is not State.IN_DOUBT:
            raise
        producer.commit()


def _settle(writes: Sequence[TableWrite], first: int) -> None:
    for number, write in enumerate(writes):
        write.offset = first + number
        write.outcome = Outcome.WRITTEN
