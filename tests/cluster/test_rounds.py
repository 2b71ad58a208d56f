"""Rounds of the keeper on a cluster: whoever is killed or stopped in the middle, what is published is right."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.agent.partition_key import PartitionKey
from tests.cluster.rounds import (
    LIMITS,
    STORES,
    Table,
    fill,
    find_writer,
    make_round,
    running_tasks,
    segments_on_disk,
    segments_published,
    stop_writer,
)
from tests.cluster.standalone import SparkCluster, descendants, kill, wait_for
from tests.keeper.engine import Engine

ROUND_SECONDS_MAX = 240.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Three stores."""
    made = Engine(tmp_path / "data", limits=LIMITS)
    yield made
    made.end()


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    """Where a round runs that the test watches."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool


@pytest.fixture(autouse=True)
def two_executors(cluster: SparkCluster, spark: SparkSession) -> None:
    """The master starts another one for each that was killed."""
    wait_for(lambda: len(cluster.executors()) == 2, "two executors")


def check_stores(
    engine: Engine, key: PartitionKey, table: Table, spark: SparkSession, cluster: SparkCluster
) -> set[str]:
    """All show the table, and after one more round hold what is published and nothing else; what that is.

    Whether an attempt is slow enough for another one beside it is for Spark to say: then one of the two writes in vain.
    """
    assert [engine.table(key, store) == table for store in STORES] == [True] * 3
    published = segments_published(engine, key)
    wait_for(lambda: not running_tasks(spark), "end of all attempts")
    wait_for(lambda: find_writer(cluster, engine.data) is None, "end of all workers that write")
    assert segments_on_disk(engine.data) >= published
    engine.round()
    assert segments_on_disk(engine.data) == published == segments_published(engine, key)
    return published


def test_a_round(engine: Engine, spark: SparkSession, cluster: SparkCluster) -> None:
    """All stores are compacted by executors, and show the same table."""
    key = engine.create("t")
    table = fill(engine, key)
    report = make_round(engine, spark).run()
    assert (report.rewrites, report.failed, report.refused) == (3, 0, 0)
    check_stores(engine, key, table, spark, cluster)


def test_an_executor_is_killed(
    engine: Engine, spark: SparkSession, cluster: SparkCluster, background: ThreadPoolExecutor
) -> None:
    """Its task runs again elsewhere; what the dead attempt left is published by nobody, and collected."""
    key = engine.create("t")
    table = fill(engine, key)
    running = background.submit(make_round(engine, spark).run)
    writer = wait_for(lambda: stop_writer(cluster, engine.data), "executor that writes")
    kill([writer.executor, *descendants(writer.executor)])
    assert not running.done()
    report = running.result(ROUND_SECONDS_MAX)
    assert (report.rewrites, report.failed, report.refused) == (3, 0, 0)
    assert writer.segment not in check_stores(engine, key, table, spark, cluster)


def test_an_attempt_that_hangs_is_overtaken(
    engine: Engine, spark: SparkSession, cluster: SparkCluster, background: ThreadPoolExecutor
) -> None:
    """Speculation starts a second attempt, and the first is told to end; what it has written harms nobody."""
    key = engine.create("t")
    table = fill(engine, key)
    running = background.submit(make_round(engine, spark).run)
    writer = wait_for(lambda: stop_writer(cluster, engine.data), "worker that writes")
    try:
        report = running.result(ROUND_SECONDS_MAX)
    finally:
        with suppress(ProcessLookupError):
            os.kill(writer.worker, signal.SIGCONT)
    assert (report.rewrites, report.failed, report.refused) == (3, 0, 0)
    assert writer.segment not in check_stores(engine, key, table, spark, cluster)


def test_a_store_that_executors_do_not_see(engine: Engine, spark: SparkSession) -> None:
    """Its rewrite fails in one line that says what executors need; the others are done."""
    key = engine.create("t")
    table = fill(engine, key)
    here = engine.data / "stores" / "2" / "store.json"
    moved = here.rename(engine.data / "moved.json")
    report = make_round(engine, spark).run()
    moved.rename(here)
    assert (report.rewrites, report.failed) == (2, 1)
    assert [engine.table(key, store) == table for store in STORES] == [True] * 3
    assert make_round(engine, spark).run().rewrites == 1
