"""Topics as tables on three real nodes, while producers, transactions and compaction run."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

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
WAIT_SECONDS_MAX = 60.0
BUSY = """\
expire_seconds = 86400
[keeper]
round_seconds = 0.2
idle_seconds = 30
settle_ms_max = 0
collect_seconds = 0.0
collect_bytes_min = 4096
snapshot_seconds = 0.5
"""
"""Something is always due, and what nobody needs goes at once."""

Table = dict[bytes, tuple[int, bytes]]


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
    print(f"seed {SEED}")
    with Writers(log.bootstrap, TOPIC, seed=SEED) as clients:
        yield clients


def count_rewrites(log: HoldfastProcess) -> int:
    return int(get_json(find_address(log.data), "/status")["keeper"]["rewrites"])


def tables(frame: DataFrame) -> dict[int, Table]:
    """By partition, what the rows stand for."""
    found: dict[int, Table] = {0: {}, 1: {}}
    for row in latest(frame).collect():
        found[row.partition][bytes(row.key)] = (row.offset, bytes(row.value))
    return found


def test_a_table_at_its_moment_through_each_replica(
    spark: SparkSession, log: HoldfastProcess, writers: Writers
) -> None:
    """Each snapshot is read when everything has been rewritten since; it equals what was committed below its end."""
    seen = []
    wait_until(lambda: count_rewrites(log) >= 6, "upkeep")
    for store in STORES:
        options = {"bootstrap": log.bootstrap, "replica": str(store)}
        with take_snapshot(spark, [TOPIC], options) as snapshot:
            assert snapshot.is_stored
            rewrites = count_rewrites(log)
            wait_until(lambda before=rewrites: count_rewrites(log) >= before + 6, "upkeep")
            seen.append((store, snapshot.ends, tables(snapshot.frame(TOPIC))))
        # And one that plans, and reads, in one go.
        with take_snapshot(spark, [TOPIC], {**options, "columns": "key,value,partition,offset"}) as snapshot:
            seen.append((store, snapshot.ends, tables(snapshot.frame(TOPIC, minPartitions="4"))))
    held = hold_reading(find_address(log.data), ReadingWanted(topics=[TOPIC], all_replicas=True))
    with held_until(held):
        assert list(compare(spark, held)) == []
    writers.stop()
    assert writers.faults == []
    assert len(writers.written) > 500
    for store, ends, found in seen:
        for partition in (0, 1):
            expected = writers.table(partition, ends[TOPIC, partition])
            assert found[partition] == expected, f"partition {partition} through store {store}"
