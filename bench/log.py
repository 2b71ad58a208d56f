"""The log's own speed, without a JVM: beside librdkafka's in-memory mock cluster, and against fixed bounds.

`make bench-log`. The mock cluster keeps nothing on disk and lives in the client's process: it is a yardstick for
the client, not a rival. Where there is a bound instead of a baseline, the ratio is bound ÷ value.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from bench.load.endpoint import SECONDS_MAX, Endpoint
from bench.load.floor import append_durably
from bench.load.process import begin, resident_mb
from bench.load.produce import batched, synchronous
from bench.load.raw import cpu_us_per_request
from bench.load.turns import ratio, take_turns
from bench.report import Figure, publish
from tests.process import HoldfastProcess

ROUNDS = 5
RESIDENT_MB_MAX = 100.0
SMALL_CPU_US_MAX = 25.0
LARGE_CPU_US_MAX = 80.0
START_SECONDS_MAX = 1.0
POLICIES = ("compact", "delete")


def main() -> int:
    """Run everything against one Holdfast process."""
    begin()
    with ExitStack() as undo:
        directory = undo.enter_context(tempfile.TemporaryDirectory(dir=Path(__file__).parents[1] / "build"))
        start_seconds = statistics.median(
            _start_seconds(Path(directory, f"start-{n}")) for n in range(ROUNDS)
        )
        process = undo.enter_context(HoldfastProcess(Path(directory, "data")))
        at_rest = resident_mb(process.pid)
        mock = mock_cluster(undo)
        ours = Endpoint(name="Holdfast", bootstrap=process.bootstrap)
        figures = [
            _beside(
                "batched produce, 100 B ÷ mock cluster",
                ours,
                mock,
                lambda endpoint: batched(endpoint, records=1_000_000, value_bytes=100),
                goal=0.9,
            ),
            _beside(
                "batched produce, 1 KB ÷ mock cluster",
                ours,
                mock,
                lambda endpoint: batched(endpoint, records=300_000, value_bytes=1000),
                goal=0.5,
            ),
            _compacted(ours),
            _together(ours),
            _bounded("resident memory at rest", at_rest, "MB", RESIDENT_MB_MAX),
            _bounded("resident memory after these loads", resident_mb(process.pid), "MB", None),
            _bounded("start to first acknowledged record", start_seconds, "s", START_SECONDS_MAX),
            _cpu("CPU per produce request, 100 B", ours, process, value_bytes=100, bound=SMALL_CPU_US_MAX),
            _cpu("CPU per produce request, 64 KB", ours, process, value_bytes=64_000, bound=LARGE_CPU_US_MAX),
        ]
        figures += _floors(Path(directory))
    return publish("log", figures)


def mock_cluster(undo: ExitStack) -> Endpoint:
    """One mock broker, which lives as long as the producer that hosts it."""
    host = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1, "log_level": 0})
    undo.callback(host.flush, 0)
    broker = next(iter(host.list_topics(timeout=SECONDS_MAX).brokers.values()))
    return Endpoint(name="mock", bootstrap=f"{broker.host}:{broker.port}", only_auto_creates=True)


def _beside(
    name: str, ours: Endpoint, mock: Endpoint, load: Callable[[Endpoint], float], *, goal: float
) -> Figure:
    rates = take_turns({"ours": lambda: load(ours), "mock": lambda: load(mock)}, rounds=ROUNDS)
    found = ratio(rates["ours"], rates["mock"])
    return Figure(
        name=name,
        value=round(found.value, 1),
        unit="MB/s",
        baseline=round(found.baseline, 1),
        ratio=round(found.ratio, 2),
        goal=goal,
    )


def _compacted(ours: Endpoint) -> Figure:
    """No goal: what it costs to look at every record for its key."""

    def load(policy: str) -> float:
        configs = {"cleanup.policy": policy}
        return batched(ours, records=1_000_000, value_bytes=100, key=bytes(16), configs=configs)

    rates = take_turns({policy: lambda policy=policy: load(policy) for policy in POLICIES}, rounds=ROUNDS)  # type: ignore[misc]
    found = ratio(rates["compact"], rates["delete"])
    return Figure(
        name="batched produce, 100 B, compacted topic ÷ another",
        value=round(found.value, 1),
        unit="MB/s",
        baseline=round(found.baseline, 1),
        ratio=round(found.ratio, 2),
    )


def _together(ours: Endpoint) -> Figure:
    """Sixteen producers share commits; one has each to itself."""
    rates = take_turns(
        {
            "sixteen": lambda: synchronous(ours, producers=16, seconds=1.5),
            "one": lambda: synchronous(ours, producers=1, seconds=1.5),
        },
        rounds=ROUNDS,
    )
    found = ratio(rates["sixteen"], rates["one"])
    return Figure(
        name="16 synchronous producers ÷ one",
        value=round(found.value, 1),
        unit="records/s",
        baseline=round(found.baseline, 1),
        ratio=round(found.ratio, 2),
        goal=4.0,
    )


def _cpu(name: str, ours: Endpoint, process: HoldfastProcess, *, value_bytes: int, bound: float) -> Figure:
    requests = 40_000 if value_bytes < 1000 else 6_000
    topic = ours.fresh_topic()
    costs = [
        cpu_us_per_request(process.port, process.pid, topic, requests=requests, value_bytes=value_bytes)
        for _ in range(3)
    ]
    return _bounded(name, statistics.median(costs), "us", bound)


def _bounded(name: str, value: float, unit: str, bound: float | None) -> Figure:
    return Figure(
        name=name,
        value=round(value, 2),
        unit=unit,
        baseline=bound,
        ratio=None if bound is None else round(bound / value, 2),
        goal=None if bound is None else 1.0,
    )


def _floors(directory: Path) -> list[Figure]:
    """No goals: what the same bytes cost a process that does nothing but write and sync them."""
    small = append_durably(directory, buffer_bytes=64_000, frame_buffers=64, frames=60)
    large = append_durably(directory, buffer_bytes=1_000_000, frame_buffers=3, frames=60)
    return [
        _bounded("for comparison: CPU to write and sync 64 KB alone", small.cpu_us_per_buffer, "us", None),
        _bounded("for comparison: 3 MB writes with a sync each alone", large.mb_per_second, "MB/s", None),
    ]


def _start_seconds(data: Path) -> float:
    start = time.perf_counter()
    with HoldfastProcess(data) as process:
        producer = Endpoint(name="new", bootstrap=process.bootstrap).producer({"linger.ms": 0})
        producer.produce("first", b"value")
        assert producer.flush(SECONDS_MAX) == 0
        return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
