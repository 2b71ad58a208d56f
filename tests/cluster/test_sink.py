"""Spark's sink on a cluster: executors killed in the middle of a batch, and tasks that Spark runs twice."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from holdfast.spark.steps import Step
from tests.cluster.trouble import KillExecutor, Trouble
from tests.process import HoldfastProcess
from tests.spark.streams import consume, make_topic, read_files, start_sink, wanted, write_files

FILES = 3
DAWDLE_S = 20.0
"""Long enough for Spark to start a second copy elsewhere, see `conftest`."""

# Executors have Holdfast, but not its tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Dawdle(Trouble):
    """So slow that Spark runs a second copy on the other executor."""

    def happen(self) -> None:
        """Sleeps, and then goes on as if nothing had been."""
        time.sleep(DAWDLE_S)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Holdfast."""
    with HoldfastProcess(tmp_path_factory.mktemp("log") / "data") as process:
        yield process.bootstrap


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [KillExecutor, Dawdle])
@pytest.mark.parametrize("step", [Step.WRITING, Step.WRITTEN], ids=lambda step: step.name.lower())
def test_every_row_once(
    spark: SparkSession, log: str, tmp_path: Path, kind: type[Trouble], step: Step
) -> None:
    """Whatever becomes of a task, and however many copies of it there are."""
    topic = f"{kind.__name__}.{step.name}"
    make_topic(log, topic)
    write_files(tmp_path / "in", FILES)
    counter = tmp_path / "steps"
    hook = kind(step=step, nth=3, counter=str(counter))
    start_sink(
        read_files(spark, tmp_path / "in"), log, topic, tmp_path / "checkpoint", hook
    ).awaitTermination()
    assert counter.stat().st_size > 3, "nothing has happened"
    assert consume(log, topic) == wanted(FILES)
