"""Reading a topic into Spark: Holdfast's source beside Spark's own Kafka connector, tuned, in one session.

Run with `make bench-source`, which makes an environment with a PySpark that the connector exists for; SOURCE_SCALE=0.1
for a glance. Both read the same two partitions of 1 KB values, and of 100 bytes, from the same Holdfast process, every
column of every row, headers too, and hand it to Spark's `noop` sink. The connector is tuned as far as it went: 8 MB per
partition and fetch, 50,000 records a poll, 1 MB of socket buffer.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.report import Figure, compare, publish
from bench.spark_read import PARTITIONS, TOPIC, drain, fill, holdfast
from holdfast.spark.session import spark_session

RECORDS = {100: 2_000_000, 1_000: 500_000}
"""By bytes of their values."""
WARM_UPS = 4
"""Rounds that do not count: in them Java compiles what both sides run."""
ROUNDS = 9
GOAL = 2.0
TUNED = {
    "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "67108864",
    "kafka.max.poll.records": "50000",
    "kafka.receive.buffer.bytes": "1048576",
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
}
AGENT, STORES = "through an agent", "beside the stores"


def main() -> int:
    """Measure, and say whether the goal was reached."""
    scale = float(os.environ.get("SOURCE_SCALE", "1"))
    jars = ",".join(map(str, Path(os.environ["CONNECTOR_JARS"]).glob("*.jar")))
    spark = spark_session("bench", master=f"local[{PARTITIONS}]", config={"spark.jars": jars})
    figures = []
    for value_bytes, records in RECORDS.items():
        figures += _measure(spark, value_bytes, int(records * scale))
    spark.stop()
    return publish("source", figures)


def _measure(spark: SparkSession, value_bytes: int, records: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory, holdfast(Path(directory)) as address:
        fill(address, records=records, value_bytes=value_bytes)
        ours = {
            name: spark.read.format("holdfast")
            .option("bootstrap", address)
            .option("topic", TOPIC)
            .option("through", way)
            .load()
            for name, way in ((AGENT, "agent"), (STORES, "stores"))
        }
        theirs = spark.read.format("kafka").option("kafka.bootstrap.servers", address).options(**TUNED)
        connector = theirs.option("subscribe", TOPIC).load()
        for frame in (*ours.values(), connector):
            assert frame.count() == records
        return compare(
            _drained(connector),
            {f"{value_bytes:,} B, {name} ÷ connector": _drained(frame) for name, frame in ours.items()},
            warm_ups=WARM_UPS,
            rounds=ROUNDS,
            amount=records / 1e6,
            unit="M records/s",
            goals={f"{value_bytes:,} B, {name} ÷ connector": GOAL for name in (AGENT, STORES)},
        )


def _drained(frame: DataFrame) -> Callable[[], object]:
    return lambda: drain(frame)


if __name__ == "__main__":
    sys.exit(main())
