"""Pipelines, and streams from Spark into topics: delivery modes beside each other, at least once, and a loop by hand.

Run with `make bench-pipeline`, or `python -m bench.pipeline --rounds 1 --batches 2 --sizes 1000` for a glance. All
of it runs on one Holdfast process, with messages of 1 KB. A micro-batch counts from trigger to end, with Spark's
own book-keeping; the first two of a query are not counted. Modes take turns, and ratios are those of a round. The first
round is not counted: Java compiles what it runs often, and whoever came first would pay for all. It goes on
doing so, which is why every other round goes the other way round.

- The sink alone: rows that Spark makes up, into one topic.
- Pipelines: from an ingest topic by a transform that does nothing to a qualified and an audit topic. In mode adapter it
  is the service alone, which is what the next service waits for; the adapter forwards after it, in a row of its own.
- The loops: confluent-kafka with the same transactions, without Spark; that beside pipelines has its positions in them.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import click
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from rich.console import Console
from rich.table import Table

from bench.load.pipelines import (
    PARTITIONS,
    SECONDS_MAX,
    VALUE_BYTES,
    WARM_BATCHES,
    Ground,
    adapter_memory_mb,
    fill,
    make_pipeline,
    run_adapter,
    run_batches,
    run_loop,
    run_service,
)
from bench.report import Figure, publish
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.run import SPARK
from holdfast.spark.session import spark_session
from holdfast.spark.sink import Sink, by_output_partition
from tests.process import HoldfastProcess

TOPIC = "bench"
SIZES = {1_000: (2, 8), 10_000: (4, 6), 100_000: (2, 3)}
"""Rounds, and batches of each query that are counted, by rows of a batch: ten minutes or so."""
GOAL_SIZE = 10_000
GOAL_SAME_SHUFFLE, GOAL_WITHOUT, GOAL_ADAPTER = 0.9, 0.6, 0.95

EXACTLY, SAME_SHUFFLE, LOOSELY, LOOP = (
    "exactly once",
    "at least once, same shuffle",
    "at least once",
    "confluent-kafka loop",
)
ADAPTER, FORWARD, TRANSACTION, DUAL = "adapter", "adapter's forwarding", "transaction", "dual"

Work = Callable[[], float]
Times = Mapping[str, list[float]]
"""Seconds of a batch, by mode, one for each round."""


@click.command()
@click.option("--batches", type=click.IntRange(2), help="Micro-batches of each query that are counted.")
@click.option("--rounds", type=click.IntRange(1))
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True, help="Rows per micro-batch.")
def main(batches: int | None, rounds: int | None, sizes: str) -> None:
    """Measure, and say whether the goals were reached."""
    figures: list[Figure] = []
    sink_times: dict[int, Times] = {}
    pipeline_times: dict[int, Times] = {}
    with tempfile.TemporaryDirectory() as name, _holdfast(Path(name)) as bootstrap:
        spark = spark_session("bench", master="local[2]", config=SPARK)
        names = (f"run-{number}" for number in count())
        for size in map(int, sizes.split(",")):
            size_rounds, size_batches = SIZES.get(size, (2, 4))
            ground = Ground(
                spark=spark,
                bootstrap=bootstrap,
                directory=Path(name),
                size=size,
                batches=batches or size_batches,
            )
            sink_times[size] = _take_turns(_sinks(ground, names), rounds or size_rounds)
            fill(ground)
            pipeline_times[size] = _take_turns(_pipelines(ground, names), rounds or size_rounds)
            figures += [
                *_sink_figures(size, sink_times[size]),
                *_pipeline_figures(size, pipeline_times[size]),
            ]
            print(f"batches of {size:,}: done", file=sys.stderr)
        one = Ground(spark=spark, bootstrap=bootstrap, directory=Path(name), size=1, batches=batches or 8)
        figures += _overhead(one, names)
        figures.append(_memory(ground, names))
        spark.stop()
    Console().print(_table("the sink alone", sink_times))
    Console().print(_table("pipelines", pipeline_times))
    sys.exit(publish("pipeline", figures))


def _take_turns(works: Sequence[Mapping[str, Work]], rounds: int) -> Times:
    """Those in one mapping are done in their order: one needs what the other has made."""
    times: dict[str, list[float]] = {mode: [] for each in works for mode in each}
    for number in range(1 + rounds):
        for each in works[:: -1 if number % 2 else 1]:
            for mode, work in each.items():
                taken = work()
                if number:
                    times[mode].append(taken)
    return times


def _sinks(ground: Ground, names: Iterator[str]) -> list[dict[str, Work]]:
    """The sink as it comes; at least once with rows brought to the same tasks, and with tasks where the rows are."""

    def run(frame: DataFrame, sink: Sink) -> float:
        return run_batches(frame, sink, ground.batches, ground.directory / next(names))

    def sink(delivery: str) -> Sink:
        return Sink(bootstrap=ground.bootstrap, topic=TOPIC, delivery=delivery)

    rows = _rows(ground)

    def shuffled() -> DataFrame:
        return by_output_partition(rows, bootstrap=ground.bootstrap, topic=TOPIC, writers=2)

    return [
        {EXACTLY: lambda: run(rows, sink("exactly_once"))},
        {SAME_SHUFFLE: lambda: run(shuffled(), sink("at_least_once"))},
        {LOOSELY: lambda: run(rows, sink("at_least_once"))},
        {LOOP: partial(_produce_in_transactions, ground)},
    ]


def _pipelines(ground: Ground, names: Iterator[str]) -> list[dict[str, Work]]:
    """The services of all modes, and the adapter on what the service before it has qualified."""
    made: list[Pipeline] = []

    def service(mode: Mode, *, loosely: bool = False) -> float:
        made.append(make_pipeline(ground, mode, next(names)))
        return run_service(ground, made[-1], loosely=loosely)

    return [
        {ADAPTER: partial(service, Mode.ADAPTER), FORWARD: lambda: run_adapter(ground, made[-1])},
        {TRANSACTION: partial(service, Mode.TRANSACTION)},
        {DUAL: partial(service, Mode.DUAL)},
        {LOOSELY: partial(service, Mode.DUAL, loosely=True)},
        {LOOP: lambda: run_loop(ground, next(names))},
    ]


def _sink_figures(size: int, times: Times) -> list[Figure]:
    goals = {SAME_SHUFFLE: GOAL_SAME_SHUFFLE, LOOSELY: GOAL_WITHOUT} if size == GOAL_SIZE else {}
    found = [
        _compared(f"sink, {size:,} rows: exactly once ÷ {mode}", size, times, EXACTLY, mode, goals.get(mode))
        for mode in (SAME_SHUFFLE, LOOSELY, LOOP)
    ]
    return [*found, _milliseconds(f"sink, {size:,} rows, per batch: exactly, at least once", times, EXACTLY)]


def _pipeline_figures(size: int, times: Times) -> list[Figure]:
    goal = GOAL_ADAPTER if size == GOAL_SIZE else None
    pairs = [
        (ADAPTER, DUAL, goal),
        (TRANSACTION, LOOSELY, None),
        (TRANSACTION, LOOP, None),
        (FORWARD, LOOP, None),
    ]
    found = [
        _compared(f"pipeline, {size:,} rows: {mode} ÷ {beside}", size, times, mode, beside, goal)
        for mode, beside, goal in pairs
    ]
    name = f"pipeline, {size:,} rows, per batch: transaction, at least once"
    return [*found, _milliseconds(name, times, TRANSACTION)]


def _overhead(ground: Ground, names: Iterator[str]) -> list[Figure]:
    """What a batch costs that carries next to nothing."""
    fill(ground)
    transaction = run_service(ground, make_pipeline(ground, Mode.TRANSACTION, next(names)))
    adapter = run_service(ground, make_pipeline(ground, Mode.ADAPTER, next(names)))
    sink = run_batches(
        _rows(ground),
        Sink(bootstrap=ground.bootstrap, topic=TOPIC),
        ground.batches,
        ground.directory / next(names),
    )
    works = {"pipeline, transaction": transaction, "pipeline, adapter": adapter, "sink alone": sink}
    return [
        Figure(name=f"overhead of a batch, {what}", value=round(1000 * seconds), unit="ms")
        for what, seconds in works.items()
    ]


def _memory(ground: Ground, names: Iterator[str]) -> Figure:
    pipeline = make_pipeline(ground, Mode.ADAPTER, next(names))
    run_service(ground, pipeline)
    rows = ground.wanted * ground.size
    name = f"memory of an adapter's processes, {rows:,} messages in batches of up to 100,000"
    return Figure(name=name, value=round(adapter_memory_mb(pipeline)), unit="MB")


def _compared(name: str, size: int, times: Times, subject: str, baseline: str, goal: float | None) -> Figure:
    ratios = [theirs / ours for ours, theirs in zip(times[subject], times[baseline], strict=True)]
    return Figure(
        name=name,
        value=round(size / statistics.median(times[subject])),
        unit="messages/s",
        baseline=round(size / statistics.median(times[baseline])),
        ratio=round(statistics.median(ratios), 2),
        goal=goal,
    )


def _milliseconds(name: str, times: Times, mode: str) -> Figure:
    ours, loosely = (round(1000 * statistics.median(times[each])) for each in (mode, LOOSELY))
    return Figure(name=name, value=ours, unit="ms", baseline=loosely)


def _table(title: str, times: Mapping[int, Times]) -> Table:
    """Messages per second of every mode, a row for each size; the loop by hand is the last column."""
    table = Table(title=f"{title}: messages/s", title_justify="left")
    table.add_column("rows a batch", justify="right")
    for mode in next(iter(times.values())):
        table.add_column(mode, justify="right")
    for size, found in times.items():
        table.add_row(f"{size:,}", *(f"{size / statistics.median(each):,.0f}" for each in found.values()))
    return table


def _produce_in_transactions(ground: Ground) -> float:
    """One transaction for each batch, by hand."""
    producer = Producer(
        {
            "bootstrap.servers": ground.bootstrap,
            "transactional.id": "bench-loop",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.init_transactions(SECONDS_MAX)
    value = b"x" * VALUE_BYTES
    times = []
    for _ in range(ground.wanted):
        begun = time.perf_counter()
        producer.begin_transaction()
        for number in range(ground.size):
            producer.produce(TOPIC, key=b"key-%d" % number, value=value)
            if number % 1_000 == 0:
                producer.poll(0)
        producer.commit_transaction(SECONDS_MAX)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[WARM_BATCHES:])


def _rows(ground: Ground) -> DataFrame:
    reader = ground.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ground.size)
    rows = reader.option("numPartitions", 2).load()
    number = sql.col("value").cast("string")
    return rows.select(
        sql.concat(sql.lit("key-"), number).alias("key"), sql.rpad(number, VALUE_BYTES, ".").alias("value")
    )


@contextmanager
def _holdfast(directory: Path) -> Iterator[str]:
    with HoldfastProcess(directory / "data") as process:
        with Cluster(process.bootstrap) as cluster:
            create_topic(cluster, TOPIC, partitions=PARTITIONS)
        yield process.bootstrap


if __name__ == "__main__":
    main()
