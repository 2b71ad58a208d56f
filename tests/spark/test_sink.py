"""Rows that go through the sink are in the topic once, whatever dies on the way; `make soak` has every step."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.spark.steps import Step
from tests.process import HoldfastProcess
from tests.spark.kills import FILES, Kill, strike
from tests.spark.streams import (
    FORMS,
    consume,
    make_topic,
    read_files,
    start_plain_format,
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
