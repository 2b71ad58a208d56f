"""Streams from Spark into a topic: exactly once against at least once, and against a hand-written loop.

Run with `make bench-pipeline`, or `python -m bench.pipeline --batches 5 --sizes 1000` for a glance. All write rows of
1 KB with a key into the same topic of a Holdfast process. Per mode and round a query runs for some micro-batches,
the first of which are not counted; a batch counts from trigger to trigger's end, with Spark's own book-keeping. The
last column is a plain loop of confluent-kafka that produces as many messages in one transaction, without Spark.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from rich.progress import track

from bench.report import Figure, publish
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.spark.session import spark_session
from holdfast.spark.sink import Sink, by_output_partition
from tests.process import HoldfastProcess

TOPIC = "bench"
PARTITIONS = 4
VALUE_BYTES = 1_000
SIZES = (1_000, 10_000, 100_000)
GOAL_SIZE = 10_000
GOAL_SAME_SHUFFLE, GOAL_WITHOUT = 0.9, 0.6
WARM_BATCHES = 2
BATCH_S_MAX = 60.0

Mode = Callable[[SparkSession, str, int, int, Path], float]


@click.command()
@click.option(
    "--batches", default=8, show_default=True, help="Micro-batches per mode and round that are counted."
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True, help="Rows per micro-batch.")
def main(batches: int, rounds: int, sizes: str) -> None:
    """Measure, and say whether the goals were reached."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name, _holdfast(Path(name)) as bootstrap:
        spark = spark_session("bench", master="local[2]")
        for size in map(int, sizes.split(",")):
            times: dict[str, list[float]] = {mode: [] for mode in MODES}
            for number in track(range(rounds * len(MODES)), f"{size:,} rows a batch"):
                mode = list(MODES)[number % len(MODES)]
                directory = Path(name) / f"{size}-{number}"
                times[mode].append(MODES[mode](spark, bootstrap, size, batches, directory))
            figures += _figures(size, times)
        spark.stop()
    sys.exit(publish("pipeline", figures))


def _figures(size: int, times: dict[str, list[float]]) -> list[Figure]:
    """Rates and, within each round, ratios to the two kinds of at least once; milliseconds per batch."""
    exactly = times["exactly once"]
    found = []
    for mode, goal in (
        ("at least once, same shuffle", GOAL_SAME_SHUFFLE),
        ("at least once", GOAL_WITHOUT),
        ("confluent-kafka loop", None),
    ):
        found.append(
            Figure(
                name=f"exactly once / {mode}, {size:,} rows",
                value=round(size / statistics.median(exactly)),
                unit="messages/s",
                baseline=round(size / statistics.median(times[mode])),
                ratio=round(statistics.median(b / a for a, b in zip(exactly, times[mode], strict=True)), 2),
                goal=goal if size == GOAL_SIZE else None,
            )
        )
    found.append(
        Figure(
            name=f"per batch, {size:,} rows: exactly once, at least once",
            value=round(1000 * statistics.median(exactly)),
            unit="ms",
            baseline=round(1000 * statistics.median(times["at least once"])),
        )
    )
    return found


def exactly_once(spark: SparkSession, bootstrap: str, size: int, batches: int, directory: Path) -> float:
    """The sink as it comes."""
    return _run(_rows(spark, size), Sink(bootstrap=bootstrap, topic=TOPIC), batches, directory)


def same_shuffle(spark: SparkSession, bootstrap: str, size: int, batches: int, directory: Path) -> float:
    """At least once, with rows brought to the same tasks."""
    frame = by_output_partition(_rows(spark, size), bootstrap=bootstrap, topic=TOPIC, writers=2)
    return _run(frame, _loose(bootstrap), batches, directory)


def at_least_once(spark: SparkSession, bootstrap: str, size: int, batches: int, directory: Path) -> float:
    """Every task where its rows are."""
    return _run(_rows(spark, size), _loose(bootstrap), batches, directory)


def confluent_loop(spark: SparkSession, bootstrap: str, size: int, batches: int, directory: Path) -> float:
    """One transaction for each batch, by hand."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "bench-loop",
            "linger.ms": 5,
            "queue.buffering.max.messages": 2 * max(SIZES),
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.init_transactions(BATCH_S_MAX)
    value = b"x" * VALUE_BYTES
    times = []
    for _ in range(WARM_BATCHES + batches):
        begun = time.perf_counter()
        producer.begin_transaction()
        for number in range(size):
            producer.produce(TOPIC, key=b"key-%d" % number, value=value)
            if number % 1_000 == 0:
                producer.poll(0)
        producer.commit_transaction(BATCH_S_MAX)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[WARM_BATCHES:])


MODES: dict[str, Mode] = {
    "exactly once": exactly_once,
    "at least once, same shuffle": same_shuffle,
    "at least once": at_least_once,
    "confluent-kafka loop": confluent_loop,
}


def _loose(bootstrap: str) -> Sink:
    return Sink(bootstrap=bootstrap, topic=TOPIC, delivery="at_least_once")


def _rows(spark: SparkSession, size: int) -> DataFrame:
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size)
    rows = reader.option("numPartitions", 2).load()
    number = sql.col("value").cast("string")
    return rows.select(
        sql.concat(sql.lit("key-"), number).alias("key"), sql.rpad(number, VALUE_BYTES, ".").alias("value")
    )


def _run(frame: DataFrame, sink: Sink, batches: int, directory: Path) -> float:
    """The median seconds of a micro-batch."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(directory))
    query = writer.start()
    wanted = WARM_BATCHES + batches
    while query.isActive and len(query.recentProgress) < wanted:
        time.sleep(0.05)
    progress = query.recentProgress[WARM_BATCHES:wanted]
    query.stop()
    assert len(progress) == batches, query.exception()
    return statistics.median(each["durationMs"]["triggerExecution"] for each in progress) / 1000


@contextmanager
def _holdfast(directory: Path) -> Iterator[str]:
    with HoldfastProcess(directory / "data") as process:
        with Cluster(process.bootstrap) as cluster:
            create_topic(cluster, TOPIC, partitions=PARTITIONS)
        yield process.bootstrap


if __name__ == "__main__":
    main()
