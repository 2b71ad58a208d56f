"""Topics as tables on three real nodes, while producers, transactions and compaction run."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import reduce

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.client.admin import find_address, get_json
from holdfast.client.readings import ReadingWanted
from holdfast.spark.held import hold_reading
from holdfast.spark.replica_diff import compare
from holdfast.spark.table import held_until, latest, take_snapshot
from tests.process import HoldfastProcess
from tests.spark.writers import Writers

SEED = 8
STORES = (1, 2, 3)
TOPIC = "accounts"
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "200"}
COMPARISONS = 3
WAIT_SECONDS_MAX = 60.0
BUSY = """\
expire_seconds = 86400
[keeper]
round_seconds = 0.5
idle_seconds = 30
settle_ms_max = 0
collect_seconds = 0.0
"""
"""Something is always due, and what nobody needs goes at once."""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {WAIT_SECONDS_MAX} s"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """Three nodes with a keeper that never rests."""
    directory = tmp_path_factory.mktemp("tables")
    config = directory / "busy.toml"
    config.write_text(BUSY)
    with HoldfastProcess(directory / "data", "--nodes", "3", "--config", str(config)) as process:
        client = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0})
        client.create_topics([NewTopic(TOPIC, 2, 3, config=COMPACTED)])[TOPIC].result()
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.log


@pytest.fixture(scope="module")
def writers(log: HoldfastProcess) -> Iterator[Writers]:
    """Clients that write all the time."""
    sys.stdout.write(f"seed {SEED}\n")
    with Writers(log.bootstrap, TOPIC, seed=SEED) as clients:
        yield clients


def count_rewrites(log: HoldfastProcess) -> int:
    return int(get_json(find_address(log.data), "/status")["keeper"]["rewrites"])


def test_tables_at_their_moments_through_each_replica(
    spark: SparkSession, log: HoldfastProcess, writers: Writers
) -> None:
    """Each snapshot equals what was committed below its end, though all has been rewritten since it was taken."""
    wait_until(lambda: count_rewrites(log) >= len(STORES), "upkeep")
    with ExitStack() as held:
        snapshots = {
            store: held.enter_context(
                take_snapshot(spark, [TOPIC], {"bootstrap": log.bootstrap, "replica": str(store)})
            )
            for store in STORES
        }
        assert all(snapshot.is_stored for snapshot in snapshots.values())
        goal = count_rewrites(log) + 2 * len(STORES)
        wait_until(lambda: count_rewrites(log) >= goal, "upkeep")
        frames = [
            latest(snapshot.frame(TOPIC, minPartitions=str(store))).withColumn("store", sql.lit(store))
            for store, snapshot in snapshots.items()
        ]
        rows = reduce(DataFrame.unionAll, frames).collect()
    # Replicas are compared while all goes on: none of them is like the other, and nothing is wrong.
    for _ in range(COMPARISONS):
        everything = hold_reading(find_address(log.data), ReadingWanted(topics=[TOPIC], all_replicas=True))
        with held_until(everything):
            assert everything.reading.not_examined == []
            assert len(everything.reading.partitions) == 2
            for each in everything.reading.partitions:
                assert each.end > 0
                assert tuple(sorted(replica.store for replica in each.replicas)) == STORES
            assert list(compare(spark, everything)) == []
    writers.stop()
    assert writers.faults == []
    assert len(writers.written) > 300
    for store, snapshot in snapshots.items():
        for partition in (0, 1):
            found = {
                bytes(row.key): (row.offset, bytes(row.value))
                for row in rows
                if (row.store, row.partition) == (store, partition)
            }
            end = snapshot.ends[TOPIC, partition]
            assert end > 0
            assert found == writers.table(partition, end), f"partition {partition} through store {store}"
