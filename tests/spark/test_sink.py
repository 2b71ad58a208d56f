"""Rows that go through the sink are in the topic once, whatever dies on the way; `make soak` has every step."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from holdfast.client.endpoint import Endpoint
from holdfast.client.producer import partition_of_key
from holdfast.spark.sink import Sink, by_output_partition
from holdfast.spark.steps import Step
from holdfast.spark.ticket import commit
from tests.agent.lossy import END_TXN, LossyCluster, lose_the_next
from tests.process import HoldfastProcess
from tests.spark.kills import FILES, Kill, strike
from tests.spark.streams import (
    FORMS,
    ROWS_PER_FILE,
    consume,
    make_topic,
    read_files,
    run,
    start_plain_format,
    start_sink,
    wanted,
    write_files,
)

# Three cases of the matrix that `make soak` goes through, one for each victim.
KILLS = [
    Kill(victim="driver", form="sink", step=Step.ENDED),
    Kill(victim="worker", form="sink", step=Step.WRITTEN),
    Kill(victim="worker", form="format", step=Step.WRITTEN),
    Kill(victim="holdfast", form="sink", step=Step.STAGED),
]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastProcess]:
    """A Holdfast that may be killed."""
    with HoldfastProcess(tmp_path_factory.mktemp("mortal") / "data") as process:
        yield process


@pytest.mark.parametrize("form", FORMS)
def test_every_row_once(spark: SparkSession, holdfast: str, tmp_path: Path, form: str) -> None:
    """And after a restart only what is new."""
    topic = f"once.{form}"
    make_topic(holdfast, topic)
    for files in (FILES - 1, FILES):
        write_files(tmp_path / "in", files)
        frame = read_files(spark, tmp_path / "in")
        FORMS[form](frame, holdfast, topic, tmp_path / "checkpoint").awaitTermination()
        assert consume(holdfast, topic) == wanted(files)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_killed(spark: SparkSession, mortal: HoldfastProcess, tmp_path: Path, kill: Kill) -> None:
    """SIGKILL in the middle of a micro-batch: nothing is lost, nothing is there twice."""
    strike(kill, spark, mortal, tmp_path)


def test_commit_in_doubt(
    spark: SparkSession, holdfast: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has committed, and nobody hears of it: the next attempt of the same driver sees the token."""
    topic = "doubt"
    make_topic(holdfast, topic)
    write_files(tmp_path / "in", 1)
    clusters: list[LossyCluster] = []

    def connect(endpoint: Endpoint, *, client_id: str) -> LossyCluster:
        clusters.append(LossyCluster(str(endpoint)))
        return clusters[-1]

    def on_step(step: Step) -> None:
        if step is Step.STAGED and len(clusters) == 1:
            lose_the_next(END_TXN, clusters[0])

    def commit_in_doubt(*about: Any, **named: Any) -> None:
        commit(*about, **{**named, "on_step": on_step})

    monkeypatch.setattr("holdfast.spark.sink.Cluster", connect)
    # The hook of the sink itself goes to the tasks as well, where the cluster cannot go.
    monkeypatch.setattr("holdfast.spark.sink.commit", commit_in_doubt)
    frame = read_files(spark, tmp_path / "in")
    run(lambda: start_sink(frame, holdfast, topic, tmp_path / "checkpoint"))
    assert [cluster.lost for cluster in clusters] == [[END_TXN], []]
    assert consume(holdfast, topic) == wanted(1)


def test_two_tasks_on_one_partition_fail_the_query(
    spark: SparkSession, holdfast: str, tmp_path: Path
) -> None:
    """The format alone does not shuffle: it says so before a row can be lost, and what to do."""
    make_topic(holdfast, "unshuffled", partitions=2)
    write_files(tmp_path / "in", 1)
    frame = read_files(spark, tmp_path / "in")
    with pytest.raises(PySparkException, match="by_output_partition"):
        start_plain_format(frame, holdfast, "unshuffled", tmp_path / "checkpoint").awaitTermination()
    assert consume(holdfast, "unshuffled").total() == 0


@pytest.mark.parametrize("form", ["sink", "format"])
def test_rows_choose_their_topics(spark: SparkSession, holdfast: str, tmp_path: Path, form: str) -> None:
    """Several topics in one transaction, each with its own number of partitions; keys go where clients put them."""
    topics = {f"{form}.qualified": 3, f"{form}.audit": 2}
    for topic, partitions in topics.items():
        make_topic(holdfast, topic, partitions=partitions)
    write_files(tmp_path / "in", 1)
    names = list(topics)
    choice = sql.when(sql.col("key").isNull(), names[1]).otherwise(names[0])
    frame = read_files(spark, tmp_path / "in").withColumn("topic", choice)
    options: dict[str, Any] = {"bootstrap": holdfast, "topics": ",".join(topics)}
    if form == "sink":
        writer = frame.writeStream.foreachBatch(Sink(**options))
    else:
        writer = by_output_partition(frame, **options).writeStream.format("holdfast").options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    qualified, audit = (consume(holdfast, topic) for topic in names)
    assert qualified + audit == wanted(1)
    assert audit.total() == ROWS_PER_FILE // 3
    read = spark.read.format("holdfast").option("bootstrap", holdfast).option("topic", names[0]).load()
    for row in read.select("key", "partition").collect():
        assert row.partition == partition_of_key(bytes(row.key), 3)
