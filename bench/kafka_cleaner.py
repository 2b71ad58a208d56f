"""Apache Kafka's own cleaner beside a round of the keeper, on the same batches; `make bench-kafka` runs it.

The log is written under cleanup.policy=delete, so that no pass begins before all of it is there. Then the policy
changes, a last record rolls the segment, and the cleaner's own line in the broker's log says how long its pass took.
"""

import os
import re
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.protocol.producer import ProduceRequest

from bench.load.batches import PLAIN, make_batches
from bench.load.compaction import fill, run_round, served
from bench.report import Figure
from holdfast.client.connection import Connection
from holdfast.lab.kafka_broker import DEFAULT_VERSION, KafkaCluster, find_release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "compaction of 10 M records"
SCALE: Final = float(os.environ.get("COMPACT_SCALE", "1"))
RECORDS: Final = int(10_000_000 * SCALE)
KEYS: Final = max(1_000, int(2_000_000 * SCALE))
WARM_UP: Final = 0.1
ROUNDS: Final = 2
GOAL: Final = 8.0
THREADS: Final = 2
SECONDS_MAX: Final = 300.0
PROPERTIES: Final = {
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": str(256 << 20),
    "log.retention.check.interval.ms": "86400000",
}
_PASS: Final = re.compile(
    r"cleaned log (?P<log>\S+) \(dirty section = \[(?P<first>\d+), (?P<last>\d+)\]\)\s+"
    r"[\d,.]+ MB of log processed in (?P<seconds>[\d,.]+) seconds"
)


def measure(directory: Path) -> list[Figure]:
    """Passes of the cleaner, then rounds of the keeper; medians."""
    begun = time.monotonic()

    def tell(what: str) -> None:
        print(f"{NAME}: {time.monotonic() - begun:4.0f} s  {what}", file=sys.stderr, flush=True)

    jars = find_release(os.environ.get("KAFKA", DEFAULT_VERSION))
    with KafkaCluster(
        directory / "kafka", jars=jars, heap_mb=1024, properties=PROPERTIES, log_level="INFO"
    ) as kafka:
        tell("Kafka's cleaner, to warm it up")
        _run_cleaner(kafka, "warm", int(RECORDS * WARM_UP))
        theirs = []
        for number in range(ROUNDS):
            tell(f"Kafka's cleaner, {number + 1} of {ROUNDS}")
            theirs.append(RECORDS / _run_cleaner(kafka, f"t{number}", RECORDS) / 1e6)
    tell("Spark")
    from holdfast.spark.session import spark_session

    spark = spark_session("bench", master=f"local[{THREADS}]", config={"spark.driver.memory": "1g"})
    _run_keeper(spark, directory / "holdfast", int(RECORDS * WARM_UP))
    ours = []
    for number in range(ROUNDS):
        tell(f"the keeper, {number + 1} of {ROUNDS}")
        ours.append(RECORDS / _run_keeper(spark, directory / "holdfast", RECORDS) / 1e6)
    spark.stop()
    value, baseline = statistics.median(ours), statistics.median(theirs)
    return [
        Figure(
            name=f"{NAME} ÷ Kafka's cleaner",
            value=round(value, 2),
            unit="M records/s",
            baseline=round(baseline, 2),
            ratio=round(value / baseline, 2),
            goal=GOAL,
        )
    ]


def _run_keeper(spark: "SparkSession", directory: Path, records: int) -> float:
    directory.mkdir()
    fill(directory / "data", PLAIN, records=records, keys=KEYS)
    with served(directory / "data") as log:
        os.sync()
        seconds = run_round(log.ask, spark, scale=SCALE).seconds
    shutil.rmtree(directory)
    return seconds


def _run_cleaner(kafka: KafkaCluster, topic: str, records: int) -> float:
    """The seconds of the pass that cleans the whole log."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "message.timestamp.before.max.ms": str(1 << 62),
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(SECONDS_MAX)
    _produce(kafka, topic, records)
    os.sync()
    changes = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        # Each one rolls the segment of those before it, which the cleaner may then take.
        producer.produce(topic, key=b"last", value=b"")
        assert producer.flush(SECONDS_MAX) == 0
        for found in _PASS.finditer(kafka.log(1)):
            if found["log"] == f"{topic}-0" and int(found["first"]) == 0 and int(found["last"]) >= records:
                return float(found["seconds"].replace(",", ""))
        time.sleep(0.2)
    raise AssertionError(f"no pass over {topic} within {SECONDS_MAX} s:\n{kafka.log(1)[-3000:]}")


def _produce(kafka: KafkaCluster, topic: str, records: int) -> None:
    part = ProduceRequest.TopicProduceData
    with Connection("127.0.0.1", kafka.port(1)) as connection:
        for batch in make_batches(PLAIN, records=records, keys=KEYS, seed=0):
            data = part.PartitionProduceData(index=0, records=bytes(batch))
            request = ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[part(name=topic, partition_data=[data])],
            )
            answer = connection.send(request, versions=(9, 9))
            code = answer.responses[0].partition_responses[0].error_code
            assert code == 0, f"Kafka refused a batch with error {code}"
