"""Pipelines for benchmarks: an ingest topic of 1 KB messages, the delivery modes on it, and a loop without Spark."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.load.process_tree import peak_of
from holdfast.client.cluster import Cluster
from holdfast.client.topics import create_topic
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.delivery import Delivered, delivery_of
from holdfast.pipelines.frames import route
from holdfast.pipelines.loading import load_pipeline
from holdfast.pipelines.queries import RECORD
from holdfast.pipelines.service import Service
from holdfast.pipelines.streams import StreamSpec, columns_of, open_stream
from holdfast.spark.schema import COLUMNS
from holdfast.spark.sink import Sink

PARTITIONS = 4
VALUE_BYTES = 1_000
WARM_BATCHES = 2
SECONDS_MAX = 120.0
TENANTS = (b"acme", b"globex", b"initech")

FILE = """\
pipeline: bench
bootstrap: {bootstrap}
ingest: {{topic: {ingest}}}
transform: trivial:judge
end_states: {{qualified: {outputs}.qualified}}
audit: {{topic: {outputs}.audit}}
tally: {{topic: {outputs}.tally}}
delivery: {mode}
checkpoint: ./checkpoint
"""

Batch = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where pipelines of one batch size run."""

    spark: SparkSession
    bootstrap: str
    directory: Path
    size: int
    batches: int

    @property
    def ingest(self) -> str:
        """Its topic."""
        return f"ingest-{self.size}"

    @property
    def wanted(self) -> int:
        """Batches that a query makes, with those that are not counted."""
        return WARM_BATCHES + self.batches


def judge(messages: DataFrame) -> DataFrame:
    """As little as a transform can do."""
    return messages.withColumn("end_state", sql.lit("qualified"))


def fill(ground: Ground) -> None:
    """As many messages as a query takes, as CloudEvents of three tenants."""
    with Cluster(ground.bootstrap) as cluster:
        create_topic(cluster, ground.ingest, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": ground.bootstrap, "linger.ms": 20})
    value = b"." * VALUE_BYTES
    for number in range(ground.wanted * ground.size):
        headers = [
            ("ce_id", b"%d" % number),
            ("ce_source", b"/bench"),
            ("ce_time", b"%d" % (1_760_000_000_000 + number)),
            ("tenant", TENANTS[number % len(TENANTS)]),
        ]
        while True:
            try:
                producer.produce(
                    ground.ingest,
                    key=b"key-%d" % number,
                    value=value,
                    headers=headers,
                    partition=number % PARTITIONS,
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(SECONDS_MAX) == 0


def make_pipeline(ground: Ground, mode: Mode, name: str) -> Pipeline:
    """With topics of its own."""
    directory = ground.directory / name
    directory.mkdir()
    (directory / "pipeline.yaml").write_text(
        FILE.format(bootstrap=ground.bootstrap, ingest=ground.ingest, outputs=name, mode=mode.value)
    )
    pipeline = load_pipeline(directory / "pipeline.yaml")
    with Cluster(ground.bootstrap) as cluster:
        for topic in ("qualified", "audit", "tally"):
            create_topic(cluster, f"{name}.{topic}", partitions=PARTITIONS)
    return pipeline


def run_service(ground: Ground, pipeline: Pipeline, *, loosely: bool = False) -> float:
    """The median seconds of its micro-batches; loosely: at least once, without a transaction."""
    delivery = (LooseDelivery if loosely else delivery_of)(pipeline)
    service = Service(pipeline, judge, delivery, on_batch=lambda report: None)
    return run_batches(
        _stream(ground, pipeline, pipeline.ingest, columns_of(pipeline)),
        service,
        ground.batches,
        pipeline.path.parent / "service",
    )


def run_adapter(ground: Ground, pipeline: Pipeline) -> float:
    """The same of its adapter, which finds all that the service has qualified."""
    sink = Sink(
        bootstrap=ground.bootstrap, topic=pipeline.audit, transactional_id=f"{pipeline.audit}.adapter"
    )
    (adapter,) = pipeline.adapters
    frame = _stream(ground, pipeline, adapter.topic)
    # Markers of transactions have offsets, too, so that the last batches of records may not be whole.
    return run_batches(
        frame,
        lambda batch, number: sink(batch.select(*RECORD), number),
        ground.batches - 1,
        pipeline.path.parent / "adapter",
    )


def adapter_memory_mb(pipeline: Pipeline) -> float:
    """The most that an adapter's process, its JVM and its workers have, while it forwards all that is there."""
    command = [sys.executable, "-W", "ignore", "-m", "holdfast", "pipeline", "run", str(pipeline.path)]
    command += ["--only", "adapter", "--once", "--master", "local[2]"]
    with (pipeline.path.parent / "adapter.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    with peak_of(process.pid) as peak:
        code = process.wait()
    assert code == 0, (pipeline.path.parent / "adapter.log").read_text()
    return peak.mb


class LooseDelivery:
    """Both topics at once, at least once."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._sink = Sink(
            bootstrap=str(pipeline.endpoint), topics=",".join(pipeline.outputs), delivery="at_least_once"
        )

    def __call__(self, identified: DataFrame, ended: DataFrame, batch_id: int) -> Delivered:
        """See Delivery."""
        self._sink(route(ended, self._pipeline), batch_id)
        return Delivered()


def run_loop(ground: Ground, name: str) -> float:
    """By hand: consume as many messages, produce each to both topics, and commit both with the positions."""
    with Cluster(ground.bootstrap) as cluster:
        for topic in ("qualified", "audit"):
            create_topic(cluster, f"{name}.{topic}", partitions=PARTITIONS)
    consumer = Consumer(
        {
            "bootstrap.servers": ground.bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(ground.ingest, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    producer = Producer(
        {
            "bootstrap.servers": ground.bootstrap,
            "transactional.id": name,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.init_transactions(SECONDS_MAX)
    times = []
    try:
        for _ in range(ground.wanted):
            begun = time.perf_counter()
            _copy(ground, consumer, producer, name)
            times.append(time.perf_counter() - begun)
    finally:
        consumer.close()
    return statistics.median(times[WARM_BATCHES:])


def _copy(ground: Ground, consumer: Any, producer: Any, name: str) -> None:
    producer.begin_transaction()
    left = ground.size
    while left:
        messages = consumer.consume(min(left, 10_000), SECONDS_MAX)
        assert messages, "the consumer was starved"
        left -= len(messages)
        for message in messages:
            headers = [*message.headers(), ("holdfast_end_state", b"qualified")]
            for topic in ("qualified", "audit"):
                producer.produce(f"{name}.{topic}", key=message.key(), value=message.value(), headers=headers)
        producer.poll(0)
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS_MAX
    )
    producer.commit_transaction(SECONDS_MAX)


def run_batches(frame: DataFrame, batch: Batch, batches: int, directory: Path) -> float:
    """The median seconds of a micro-batch, from trigger to the trigger's end."""
    writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(directory))
    query = writer.start()
    wanted = WARM_BATCHES + batches
    deadline = time.monotonic() + SECONDS_MAX * wanted
    found: list[Any] = []
    while query.isActive and len(found) < wanted:
        assert time.monotonic() < deadline, f"{len(found)} of {wanted} batches"
        time.sleep(0.05)
        found = [each for each in query.recentProgress if each.numInputRows]
    query.stop()
    assert len(found) >= wanted, query.exception()
    times = [each.durationMs["triggerExecution"] / 1000 for each in found[WARM_BATCHES:wanted]]
    return statistics.median(times)


def _stream(ground: Ground, pipeline: Pipeline, topic: str, columns: tuple[str, ...] = COLUMNS) -> DataFrame:
    """As a pipeline opens it."""
    spec = StreamSpec(
        endpoint=pipeline.endpoint,
        topic=topic,
        group=f"bench.{topic}",
        starting="earliest",
        records_max=ground.size,
        columns=columns,
    )
    return open_stream(ground.spark, pipeline, spec)
