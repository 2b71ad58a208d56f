"""Topics as DataFrames on a cluster: an executor that is killed in the middle changes nothing of what is read."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tests.cluster.standalone import SparkCluster, descendants, kill, wait_for
from tests.process import HoldfastProcess

RECORDS = 200_000
TASKS = 24
READ_SECONDS_MAX = 240.0


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[DataFrame]:
    """Numbers as values, in three partitions, to be read by many tasks."""
    with HoldfastProcess(tmp_path_factory.mktemp("log") / "data", "--partitions", "3") as log:
        producer = Producer({"bootstrap.servers": log.bootstrap, "linger.ms": 20, "log_level": 0})
        for number in range(RECORDS):
            producer.produce("numbers", key=b"%d" % (number % 1000), value=b"%d" % number)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(30) == 0
        reader = spark.read.format("holdfast").option("bootstrap", log.bootstrap).option("topic", "numbers")
        yield reader.option("minPartitions", str(TASKS)).load()
        assert log.stop() == 0


def summed(topic: DataFrame) -> tuple[int, int, int]:
    """How many rows there are, how many different ones, and their sum."""
    number = sql.col("value").cast("string").cast("long").alias("number")
    aggregates = (sql.count("number"), sql.count_distinct("number"), sql.sum("number"))
    return tuple(topic.select(number).agg(*aggregates).collect()[0])


EXPECTED = (RECORDS, RECORDS, RECORDS * (RECORDS - 1) // 2)


def test_a_read(topic: DataFrame) -> None:
    """Every record once."""
    assert summed(topic) == EXPECTED


def test_an_executor_is_killed(topic: DataFrame, spark: SparkSession, cluster: SparkCluster) -> None:
    """When some of the tasks are done and others are not: what was lost is read again."""
    wait_for(lambda: len(cluster.executors()) == 2, "two executors")
    with ThreadPoolExecutor(max_workers=1) as background:
        running = background.submit(summed, topic)
        wait_for(lambda: completed_tasks(spark) >= 2, "tasks that are done")
        executor = cluster.executors()[0]
        kill([executor, *descendants(executor)])
        assert completed_tasks(spark) < TASKS, "the read was over before the kill"
        assert running.result(READ_SECONDS_MAX) == EXPECTED


def completed_tasks(spark: SparkSession) -> int:
    """Of the stage that is under way; none if there is none."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return max((stage.numCompletedTasks for stage in stages if stage is not None), default=0)
