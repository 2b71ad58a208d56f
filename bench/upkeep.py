"""What a producer that waits for each record feels of a large compaction beside it: `make bench-upkeep`.

The ratio is p99 without ÷ p99 with: 1 where nobody notices.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.load.endpoint import SECONDS_MAX, Endpoint
from bench.load.process import begin
from bench.report import Figure, publish
from tests.process import HoldfastProcess

ROUNDS = 3
RECORDS = 400_000
VALUE_BYTES = 500
KEYS = 100_000
CALL_RECORDS = 1_000
SECONDS = 5.0
P99_RATIO_MIN = 0.5
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
SETTINGS = "expire_seconds = 86400\n[keeper]\nround_seconds = 86400\nsettle_ms_max = 0\n"
"""No upkeep but ours."""


def main() -> int:
    """Rounds of: fill a topic, measure alone, measure while it is compacted."""
    begin()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[1] / "build") as name:
        settings = Path(name, "settings.toml")
        settings.write_text(SETTINGS)
        data = Path(name, "data")
        with HoldfastProcess(data, "--config", str(settings)) as process:
            ours = Endpoint(name="Holdfast", bootstrap=process.bootstrap)
            small = ours.fresh_topic()
            rounds = [_round(ours, small, data) for _ in range(ROUNDS)]
    without = statistics.median(alone for alone, _, _ in rounds)
    beside = statistics.median(busy for _, busy, _ in rounds)
    return publish(
        "upkeep",
        [
            Figure(
                name="synchronous produce, p99 without ÷ beside a compaction",
                value=round(beside, 2),
                unit="ms",
                baseline=round(without, 2),
                ratio=round(statistics.median(alone / busy for alone, busy, _ in rounds), 2),
                goal=P99_RATIO_MIN,
            ),
            Figure(
                name="compaction meanwhile, with the keeper's start",
                value=round(RECORDS * VALUE_BYTES / 1e6 / statistics.median(took for *_, took in rounds), 1),
                unit="MB/s",
            ),
        ],
    )


def _round(ours: Endpoint, small: str, data: Path) -> tuple[float, float, float]:
    """p99 alone and beside a compaction, in ms, and how long that took, in s."""
    _fill(ours)
    end = time.perf_counter() + SECONDS
    alone = _p99_ms(ours, small, lambda: time.perf_counter() < end)
    start = time.perf_counter()
    command = [sys.executable, "-m", "holdfast", "keeper", "run", "--once", "--data", str(data)]
    keeper = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    busy = _p99_ms(ours, small, lambda: keeper.poll() is None)
    assert keeper.returncode == 0, f"the keeper ended with {keeper.returncode}"
    return alone, busy, time.perf_counter() - start


def _fill(ours: Endpoint) -> None:
    topic = ours.fresh_topic(configs=COMPACTED)
    producer = ours.producer({"linger.ms": 20})
    value = bytes(VALUE_BYTES)
    for first in range(0, RECORDS, CALL_RECORDS):
        messages: list[dict[str, Any]] = [
            {"key": b"%012d" % (number * 7919 % KEYS), "value": value}
            for number in range(first, first + CALL_RECORDS)
        ]
        producer.produce_batch(topic, messages, partition=0)
        while len(producer) > 50 * CALL_RECORDS:
            producer.poll(0.001)
    assert producer.flush(SECONDS_MAX) == 0


def _p99_ms(ours: Endpoint, topic: str, goes_on: Callable[[], bool]) -> float:
    producer = ours.producer({"linger.ms": 0})
    took: list[float] = []
    while goes_on() or len(took) < 100:
        start = time.perf_counter()
        producer.produce(topic, bytes(100), partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        took.append((time.perf_counter() - start) * 1000)
    return statistics.quantiles(took[1:], n=100)[98]


if __name__ == "__main__":
    sys.exit(main())
