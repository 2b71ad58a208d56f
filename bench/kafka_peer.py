"""The same clients against Apache Kafka and Holdfast: one node each on this machine, taking turns.

`make bench-kafka`. "Durable" Kafka syncs before it acknowledges (`log.flush.interval.messages=1`), as Holdfast
always does; "page-cache" Kafka is Kafka as it comes, which acknowledges before anything is on disk. A ratio is
how many times as good Holdfast is: as fast, as quick to start, as small. `python -m bench.kafka_peer WORD` takes only
the rows whose names have the word in them.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import kafka_cleaner
from bench.load.consume import reading
from bench.load.endpoint import SECONDS_MAX, Endpoint
from bench.load.process import begin, resident_mb
from bench.load.produce import batched, dual, synchronous
from bench.load.transactions import PER_MESSAGE, Fleet
from bench.load.turns import Rates, ratio, take_turns
from bench.report import Figure, publish
from holdfast.lab.kafka_broker import DEFAULT_VERSION, KafkaCluster, find_release
from tests.process import HoldfastProcess

ROUNDS = 3
STRETCH = 0.7
HOLDFAST, DURABLE, PAGE_CACHE = "Holdfast", "durable Kafka", "page-cache Kafka"
SYNC_EACH = {"log.flush.interval.messages": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A load, and how many times each Kafka's rate is wanted."""

    name: str
    unit: str
    work: Callable[[Endpoint], Callable[[], float]]
    goal: float = 1.0
    page_cache_goal: float | None = None
    """None: the stretch that a Kafka which does not wait for the disk is worth."""


def _each_time(load: Callable[..., float], **options: float) -> Callable[[Endpoint], Callable[[], float]]:
    return lambda endpoint: partial(load, endpoint, **options)


def _transacting(*, producers: int, size: int = PER_MESSAGE) -> Callable[[Endpoint], Callable[[], float]]:
    return lambda endpoint: partial(
        Fleet(endpoint, producers=producers, transactional=True).run, size=size, seconds=1.5
    )


ROWS = [
    Row(
        name="batched produce, 100 B, 1 partition",
        unit="MB/s",
        work=_each_time(batched, records=1_000_000, value_bytes=100),
    ),
    Row(
        name="batched produce, 1 KB, 1 partition",
        unit="MB/s",
        work=_each_time(batched, records=400_000, value_bytes=1000),
    ),
    Row(
        name="batched produce, 1 KB, 6 partitions",
        unit="MB/s",
        work=_each_time(batched, records=400_000, value_bytes=1000, partitions=6),
    ),
    Row(
        name="1 synchronous producer, 100 B",
        unit="records/s",
        work=_each_time(synchronous, producers=1, seconds=1.5),
    ),
    Row(
        name="16 synchronous producers, 100 B",
        unit="records/s",
        work=_each_time(synchronous, producers=16, seconds=1.5),
        goal=3.0,
    ),
    Row(
        name="dual publish with flush, 1 producer",
        unit="pairs/s",
        work=_each_time(dual, producers=1, seconds=1.5),
    ),
    Row(
        name="dual publish with flush, 32 producers",
        unit="pairs/s",
        work=_each_time(dual, producers=32, seconds=1.5),
    ),
    Row(
        name="per-message transactions, 1 producer",
        unit="messages/s",
        work=_transacting(producers=1),
        goal=10.0,
        page_cache_goal=2.0,
    ),
    Row(
        name="per-message transactions, 8 producers",
        unit="messages/s",
        work=_transacting(producers=8),
    ),
    Row(
        name="per-message transactions, 32 producers",
        unit="messages/s",
        work=_transacting(producers=32),
        page_cache_goal=3.0,
    ),
    Row(
        name="transactions of 100 messages, 1 producer",
        unit="messages/s",
        work=_transacting(producers=1, size=100),
    ),
    Row(
        name="consume, cached, 1 KB",
        unit="MB/s",
        work=lambda endpoint: reading(endpoint, records=300_000, value_bytes=1000),
    ),
]


class Brokers:
    """All three, started one after the other, each alone until its first acknowledged record."""

    def __init__(self, directory: Path, undo: ExitStack) -> None:
        jars = find_release(os.environ.get("KAFKA", DEFAULT_VERSION))
        clusters = {
            name: KafkaCluster(directory / name.replace(" ", "-"), jars=jars, heap_mb=1024, properties=how)
            for name, how in ((DURABLE, SYNC_EACH), (PAGE_CACHE, {}))
        }
        self.endpoints: dict[str, Endpoint] = {}
        self.start_seconds: dict[str, float] = {}
        self.pids: dict[str, int] = {}
        for name, cluster in clusters.items():
            cluster.format()
            undo.callback(cluster.kill)
            self._start(name, partial(cluster.launch, 1), lambda cluster=cluster: cluster.bootstrap)  # type: ignore[misc]
            self.pids[name] = cluster.pid(1)
        ours = HoldfastProcess(directory / "holdfast")
        undo.callback(ours.kill)
        self._start(HOLDFAST, ours.start, lambda: ours.bootstrap)
        self.pids[HOLDFAST] = ours.pid

    def _start(self, name: str, launch: Callable[[], None], bootstrap: Callable[[], str]) -> None:
        start = time.perf_counter()
        launch()
        self.endpoints[name] = Endpoint(name=name, bootstrap=bootstrap())
        eager = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20}
        producer = self.endpoints[name].producer(eager | {"topic.metadata.refresh.fast.interval.ms": 10})
        producer.produce("first", b"value")
        assert producer.flush(SECONDS_MAX) == 0, f"{name} acknowledged nothing in {SECONDS_MAX} s"
        self.start_seconds[name] = time.perf_counter() - start

    def resident_mb(self) -> dict[str, float]:
        """What each takes now."""
        return {name: resident_mb(pid) for name, pid in self.pids.items()}


def main() -> int:
    """Start all, run all, say whether the goals were reached."""
    begin()
    with ExitStack() as undo:
        directory = undo.enter_context(tempfile.TemporaryDirectory(dir=Path(__file__).parents[1] / "build"))
        figures = []
        word = " ".join(sys.argv[1:])
        if word in kafka_cleaner.NAME:
            # Before the others are there: two processors are few enough.
            figures += kafka_cleaner.measure(Path(directory))
        rows = [row for row in ROWS if word in row.name]
        if not rows:
            return publish("kafka", figures)
        brokers = Brokers(Path(directory), undo)
        at_rest = brokers.resident_mb()
        for row in rows:
            works = {name: row.work(endpoint) for name, endpoint in brokers.endpoints.items()}
            figures += _compared(row, take_turns(works, rounds=ROUNDS))
            print(f"{row.name}: done", file=sys.stderr)
        figures.append(_smaller("start to first acknowledged record", "s", brokers.start_seconds))
        figures.append(_smaller("resident memory at rest", "MB", at_rest))
        figures.append(_smaller("resident memory after these loads", "MB", brokers.resident_mb()))
    return publish("kafka", figures)


def _compared(row: Row, rates: Rates) -> list[Figure]:
    figures = []
    beside_page_cache = (STRETCH, " (stretch)") if row.page_cache_goal is None else (row.page_cache_goal, "")
    for baseline, goal, note in ((DURABLE, row.goal, ""), (PAGE_CACHE, *beside_page_cache)):
        found = ratio(rates[HOLDFAST], rates[baseline])
        figures.append(
            Figure(
                name=f"{row.name} ÷ {baseline}{note}",
                value=round(found.value, 1),
                unit=row.unit,
                baseline=round(found.baseline, 1),
                ratio=round(found.ratio, 2),
                goal=goal,
            )
        )
    return figures


def _smaller(name: str, unit: str, values: Mapping[str, float]) -> Figure:
    theirs = statistics.mean((values[DURABLE], values[PAGE_CACHE]))
    return Figure(
        name=f"{name}: Kafka ÷ Holdfast",
        value=round(values[HOLDFAST], 2),
        unit=unit,
        baseline=round(theirs, 2),
        ratio=round(theirs / values[HOLDFAST], 2),
        goal=1.0,
    )


if __name__ == "__main__":
    sys.exit(main())
